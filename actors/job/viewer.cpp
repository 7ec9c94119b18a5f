#include "actors/job/viewer.hpp"

#include "actors/support/message_path.hpp"

#include <utility>

namespace troupe::actors {

drain_request drain_by(const messages::supervisor_actor& supervisor,
                       std::shared_ptr<const message_path> by) {
  return [weak = caf::actor_cast<caf::weak_actor_ptr>(supervisor),
          path = std::move(by)](const std::string& why) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(weak))
      path->send_from_outside(caf::actor_cast<messages::supervisor_actor>(alive),
                              messages::drain{why});
  };
}

}  // namespace troupe::actors
