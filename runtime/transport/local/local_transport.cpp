#include "runtime/transport/local/local_transport.hpp"

#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::runtime {

ticket local_transport::deposit(tensor x,
                                generation_id generation,
                                std::shared_ptr<const void> until_taken) {
  ticket out{process_, 0, generation, x.type(), x.extents()};
  const auto bytes = x.bytes();
  const std::lock_guard lock(mutex_);
  if (generation <= ended_)
    throw cancelled();
  out.slot = next_slot_++;
  leases_.emplace(out.slot, lease{std::move(x), generation, std::move(until_taken)});
  counters_.bytes_handed += bytes;
  ++counters_.tickets;
  return out;
}

std::vector<tensor> local_transport::redeem_all(std::span<const ticket> tickets, const redeemer&) {
  std::vector<tensor> out;
  for (const auto& x : tickets)
    out.push_back(take(x));
  return out;
}

tensor local_transport::take(const ticket& x) {
  ensure(x.holder == process_, "TICKET-2: a ticket is redeemed at its holder");
  decltype(leases_)::node_type at;  // released without the mutex
  const std::lock_guard lock(mutex_);
  if (x.generation <= ended_ || taken_back_.contains(x.slot))
    throw cancelled();
  at = leases_.extract(x.slot);
  ensure(!at.empty(), "HANDOFF-2: a ticket is redeemed exactly once");
  return std::move(at.mapped().data);
}

void local_transport::take_back(std::span<const ticket> tickets) {
  std::vector<lease> released;  // released without the mutex
  const std::lock_guard lock(mutex_);
  for (const auto& x : tickets)
    if (auto at = leases_.extract(x.slot)) {
      released.push_back(std::move(at.mapped()));
      taken_back_.emplace(x.slot, x.generation);
      ++counters_.dropped;
    }
}

void local_transport::end_generation(generation_id last) {
  std::vector<lease> released;  // released without the mutex
  const std::lock_guard lock(mutex_);
  ended_ = std::max(ended_, last);
  counters_.dropped += std::erase_if(leases_, [&](auto& entry) {
    const bool over = entry.second.generation <= last;
    if (over)
      released.push_back(std::move(entry.second));
    return over;
  });
  std::erase_if(taken_back_, [&](const auto& entry) { return entry.second <= last; });
}

std::size_t local_transport::leased() const {
  const std::lock_guard lock(mutex_);
  return leases_.size();
}

}  // namespace troupe::runtime
