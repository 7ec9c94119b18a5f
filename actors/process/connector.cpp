#include "actors/process/connector.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/support/guard.hpp"

#include <caf/actor_system.hpp>

#include <exception>
#include <utility>

namespace troupe::actors {

void connector_state::start(std::shared_ptr<neighbours> by, std::chrono::milliseconds patience) {
  by_ = std::move(by);
  patience_ = patience;
}

messages::connected connector_state::connect(const messages::connect_to& x) {
  const auto& other = x.other;
  try {
    if (other.port != 0)
      others_[other.who] = connector_at(self_->home_system(), other.host, other.port, patience_);
    by_->introduce(other);
    return {.other = other.who};
  } catch (const std::exception& failure) {
    return {.other = other.who, .failure = failure.what()};
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
