#include "actors/faults/faulty_transport.hpp"

#include "actors/host/rank_states.hpp"
#include "runtime/core/random.hpp"
#include "runtime/state/state_check.hpp"

#include <utility>

namespace troupe::actors {
namespace {

constexpr const char* keeper_role = "keeper";

/// Arrays in the order of tickets_of.
std::vector<runtime::tensor> arrays_of(runtime::rank_state x, const messages::state_of_rank& told) {
  std::vector<runtime::tensor> out;
  for (const auto& part : told.parts) {
    auto& from = x.parts.at(part.chunk);
    for (auto& one : from.weights)
      out.push_back(std::move(one));
    out.push_back(std::move(from.kept));
  }
  return out;
}

}  // namespace

faulty_transport::faulty_transport(std::shared_ptr<runtime::transport> inner,
                                   std::shared_ptr<const fault_injector> faults,
                                   std::shared_ptr<const working_lanes> lanes,
                                   std::shared_ptr<const faulty_network> network)
    : inner_(std::move(inner)),
      faults_(std::move(faults)),
      lanes_(std::move(lanes)),
      network_(std::move(network)) {}

runtime::ticket faulty_transport::deposit(runtime::tensor x,
                                          runtime::generation_id generation,
                                          std::shared_ptr<const void> until_taken) {
  return inner_->deposit(std::move(x), generation, std::move(until_taken));
}

std::vector<runtime::tensor> faulty_transport::redeem_all(std::span<const runtime::ticket> tickets,
                                                          const runtime::redeemer& by) {
  using enum runtime::moment_of_step;
  if (const auto lane = lanes_->find(by.stream); lane && !tickets.empty())
    faults_->pass(lane->who, lane->step, redeem);
  auto out = inner_->redeem_all(tickets, by);
  const auto kept = network_->kept_with(tickets);
  if (!kept)
    return out;
  const auto step = value(kept->step);
  if (faults_->pass(keeper_role, step, redeem) != fault_injector::fate::wrong_bits)
    return out;
  auto state = assembled(kept->state, std::move(out));
  runtime::flip_bit(state, runtime::random_key(0, keeper_role, step));
  return arrays_of(std::move(state), kept->state);
}

void faulty_transport::take_back(std::span<const runtime::ticket> tickets) {
  inner_->take_back(tickets);
}

void faulty_transport::end_generation(runtime::generation_id last) {
  inner_->end_generation(last);
}

std::size_t faulty_transport::leased() const {
  return inner_->leased();
}

const runtime::transport_counters& faulty_transport::counters() const {
  return inner_->counters();
}

}  // namespace troupe::actors
