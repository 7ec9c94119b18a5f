#include "actors/support/message_network.hpp"

namespace troupe::actors {

void message_network::introduce(const caf::actor&, const std::string&) {}

bool message_network::arrives(const caf::local_actor&, const message_view&) {
  return true;
}

void message_network::handled(const caf::local_actor&, const message_view&) {}

void message_network::leaves(const caf::local_actor&, const message_view&) {}

void message_network::left(const caf::local_actor&, const message_view&) {}

}  // namespace troupe::actors
