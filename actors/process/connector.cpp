#include "actors/process/connector.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/guard.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"

#include <caf/actor_system.hpp>
#include <caf/exit_reason.hpp>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

/// Calls of one process: a reset may also hit the first ones, and a busy machine answers late.
constexpr int most_calls = 3;

}  // namespace

void connector_state::start(std::shared_ptr<neighbours> by, std::chrono::milliseconds patience) {
  by_ = std::move(by);
  patience_ = patience;
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
}

std::string connector_state::call(const messages::process_address& x) {
  std::string failure;
  for (int i = 0; i < most_calls; ++i)
    try {
      const auto found = connector_at(self_->home_system(), x.host, x.port, patience_);
      others_[x.who] = found;
      self_->monitor(found);
      return {};
    } catch (const std::exception& why) {
      failure = why.what();
    }
  return failure;
}

// Stops at the first failure: that ends the generation.
caf::result<messages::connected> connector_state::connect(const messages::connect_to& x) {
  if (x.generation < newest_)
    return messages::make_error(messages::ec::cancelled, "NODE-3: a newer supervisor is obeyed");
  newest_ = x.generation;
  if (value(x.since) == 0)
    neighbours_.clear();
  else
    runtime::ensure(x.since == connected_,
                    "PROCESS-2: a connector is told what has changed since it had all neighbours");
  for (const int place : x.no_more)
    neighbours_.erase(place);
  for (const auto& other : x.others)
    neighbours_[other.who.process] = other;
  // Each begins with the next process, so that not all call the first one at once.
  std::vector<messages::process_address> all;
  for (const auto& [place, other] : neighbours_)
    all.push_back(other);
  std::ranges::rotate(all, std::ranges::find_if(all, [this](const auto& other) {
                        return other.who.process > by_->self().process;
                      }));
  by_->use_only(all);
  std::set<messages::process_name> named;
  for (const auto& other : all)
    named.insert(other.who);
  std::erase_if(others_, [&](const auto& one) { return !named.contains(one.first); });
  for (const auto& other : all)
    if (other.port != 0 && !others_[other.who])
      if (auto failure = call(other); !failure.empty())
        return messages::connected{std::move(failure), other.who};
  connected_ = x.generation;
  return messages::connected{};
}

// The launcher tells of a process that has ended.
void connector_state::lose(const caf::down_msg& x) {
  for (auto& [who, it] : others_)
    if (it && it.address() == x.source) {
      it = nullptr;
      // CAF says `unknown` of an actor that ended before the request to monitor it arrived.
      if (x.reason == caf::exit_reason::remote_link_unreachable
          || x.reason == caf::exit_reason::unknown)
        by_->control_broke(who, "the other process has ended or does not answer");
      return;
    }
}

void connector_state::forget(const messages::forget& x) {
  others_.erase(x.who);
  by_->forget(x.who, x.why);
}

messages::connector_actor::behavior_type connector(
    messages::connector_actor::stateful_pointer<connector_state> self,
    std::shared_ptr<neighbours> by,
    std::chrono::milliseconds patience) {
  self->state.start(std::move(by), patience);
  end_on_exception(self, "connector");
  return {[self](const messages::connect_to& x) { return self->state.connect(x); },
          [self](const messages::forget& x) { self->state.forget(x); }};
}

}  // namespace troupe::actors
