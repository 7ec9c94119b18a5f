// Connects its process with others, control plane and data planes, on request of the rendezvous.

#pragma once

#include "actors/process/neighbours.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>

namespace troupe::actors {

/// Blocks while it connects: spawn it detached. Ends with its process.
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
  std::chrono::milliseconds patience_{};  ///< timeout for one that does not answer
  /// These handles keep the connections open: CAF closes one when no actor of its other end is
  /// known.
  std::map<messages::process_name, messages::connector_actor> others_;
};

/// Timeout of one connect, from the failure detector's timeout in seconds. Callers of a connector
/// wait for all of the latter.
inline std::chrono::milliseconds connect_patience(double suspicion) {
  return std::chrono::milliseconds(std::int64_t(suspicion * 500));
}

messages::connector_actor::behavior_type connector(
    messages::connector_actor::stateful_pointer<connector_state> self,
    std::shared_ptr<neighbours> by,
    std::chrono::milliseconds patience);

}  // namespace troupe::actors
