#include "actors/process/connector.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/log.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/exit_reason.hpp>

#include <exception>
#include <string>
#include <utility>

namespace troupe::actors {
namespace {

/// Calls to make a connection again: a reset may also hit the first ones. They share one timeout.
constexpr int most_calls = 3;

}  // namespace

void connector_state::start(std::shared_ptr<neighbours> by,
                            std::chrono::milliseconds patience,
                            const std::shared_ptr<const message_path>& path) {
  by_ = std::move(by);
  patience_ = patience;
  self_->set_down_handler([this](const caf::down_msg& x) { lose(x); });
  by_->connect_control_by([weak = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
                           path](const messages::process_address& x) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      path->send_from_outside(caf::actor_cast<messages::connector_actor>(alive),
                              messages::connect_to{x});
  });
}

void connector_state::call(const messages::process_address& x, std::chrono::milliseconds patience) {
  const auto found = connector_at(self_->home_system(), x.host, x.port, patience);
  others_[x.who] = found;
  self_->monitor(found);
}

messages::connected connector_state::connect(const messages::connect_to& x) {
  const auto& other = x.other;
  if (const auto known = others_.find(other.who); known != others_.end() && !known->second)
    return connect_again(other);
  try {
    if (other.port != 0)
      call(other, patience_);
    by_->introduce(other);
    return {.other = other.who};
  } catch (const std::exception& failure) {
    return {.other = other.who, .failure = failure.what()};
  }
}

messages::connected connector_state::connect_again(const messages::process_address& x) {
  messages::connected out{.other = x.who};
  for (int i = 0; i < most_calls; ++i)
    try {
      call(x, patience_ / most_calls);
      out.failure.clear();
      break;
    } catch (const std::exception& failure) {
      out.failure = failure.what();
    }
  if (!out.failure.empty())
    runtime::log_warning(
        "cannot restore the control connection with process {}: {}; messages take a route over "
        "another process",
        x.who.process,
        out.failure);
  by_->control_is_settled(x.who);
  return out;
}

// The launcher tells of a process that has ended.
void connector_state::lose(const caf::down_msg& x) {
  for (auto& [who, it] : others_)
    if (it && it.address() == x.source) {
      it = nullptr;
      if (x.reason == caf::exit_reason::remote_link_unreachable)
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
    std::chrono::milliseconds patience,
    const std::shared_ptr<const message_path>& path) {
  self->state.start(std::move(by), patience, path);
  end_on_exception(self, "connector");
  return {[self](const messages::connect_to& x) { return self->state.connect(x); },
          [self](const messages::forget& x) { self->state.forget(x); }};
}

}  // namespace troupe::actors
