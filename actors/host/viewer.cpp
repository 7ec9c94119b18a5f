#include "actors/host/viewer.hpp"

#include "actors/support/message_path.hpp"

#include <utility>

namespace troupe::actors {

namespace {

template <class Handle>
drain_request ask_by(const Handle& who, std::shared_ptr<const message_path> by) {
  return [weak = caf::actor_cast<caf::weak_actor_ptr>(who),
          path = std::move(by)](const std::string& why) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      path->send_from_outside(caf::actor_cast<Handle>(alive), messages::drain{why});
  };
}

}  // namespace

drain_request drain_by(const messages::supervisor_actor& supervisor,
                       std::shared_ptr<const message_path> by) {
  return ask_by(supervisor, std::move(by));
}

drain_request drain_by(const messages::front_actor& front, std::shared_ptr<const message_path> by) {
  return ask_by(front, std::move(by));
}

}  // namespace troupe::actors
