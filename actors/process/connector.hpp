// Connects its process with others, control plane and data planes, as the rendezvous says.

#pragma once

#include "actors/process/neighbours.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

namespace troupe::actors {

/// It blocks while it connects: spawn it detached. Ends when its process does.
class connector_state {
 public:
  static constexpr const char* name = "connector";

  explicit connector_state(messages::connector_actor::pointer self) : self_(self) {}

  void start(std::shared_ptr<neighbours> by, std::chrono::milliseconds patience);
  messages::connected connect(const messages::connect_to& x);
  void forget(const messages::forget& x);

 private:
  messages::connector_actor::pointer self_;
  std::shared_ptr<neighbours> by_;
  std::chrono::milliseconds patience_{};  ///< with one that does not answer
  /// Held: CAF keeps the connection with a process of which somebody here knows an actor.
  std::map<messages::process_name, messages::connector_actor> others_;
};

/// Of the suspicion, in seconds: who asks a connector waits for all of it.
inline std::chrono::milliseconds connect_patience(double suspicion) {
  return std::chrono::milliseconds(std::int64_t(suspicion * 500));
}

messages::connector_actor::behavior_type connector(
    messages::connector_actor::stateful_pointer<connector_state> self,
    std::shared_ptr<neighbours> by,
    std::chrono::milliseconds patience);

}  // namespace troupe::actors
