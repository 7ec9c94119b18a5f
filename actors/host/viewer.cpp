#include "actors/host/viewer.hpp"

#include "actors/support/outside_sender.hpp"

#include <utility>

namespace troupe::actors {

namespace {

template <class Handle>
drain_request ask_by(const Handle& who, std::shared_ptr<const message_path> by) {
  return [tell = outside_sender(who, std::move(by))](const std::string& why) {
    tell(messages::drain{why});
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
