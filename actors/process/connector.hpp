// Connects its process with its neighbours, control plane and data planes, on the supervisor's
// request.

#pragma once

#include "actors/host/neighbours.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/result.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace troupe::actors {

/// Blocks while it connects: spawn it detached. Ends with its process.
///
/// When a connection breaks, CAF ends the proxies of the other process's actors and reports that to
/// the actors that monitor one of them. In many layouts no actor monitors one of another process,
/// and messages would be lost silently. So a connector monitors the connectors that it has called,
/// and reports a lost connection to its node. It calls again for the next generation (LINK-1).
class connector_state {
 public:
  static constexpr const char* name = "connector";

  explicit connector_state(messages::connector_actor::pointer self) : self_(self) {}

  void start(std::shared_ptr<neighbours> by, std::chrono::milliseconds patience);
  caf::result<messages::connected> connect(const messages::connect_to& x);
  void forget(const messages::forget& x);

 private:
  /// Returns why it cannot be reached; empty: it was.
  std::string call(const messages::process_address& x);
  void lose(const caf::down_msg& x);

  messages::connector_actor::pointer self_;
  std::shared_ptr<neighbours> by_;
  std::chrono::milliseconds patience_{};  ///< timeout for a process that does not answer
  runtime::generation_id newest_ = {};
  runtime::generation_id connected_ = {};  ///< the newest that was answered without a failure
  std::map<int, messages::process_address> neighbours_;  ///< by place
  /// The processes that this one calls. These handles keep the connections open: CAF closes one
  /// when no actor of its other end is known. Null: not connected.
  std::map<messages::process_name, messages::connector_actor> others_;
};

/// Timeout of one call, from the failure detector's timeout in seconds.
inline std::chrono::milliseconds connect_patience(double suspicion) {
  return std::chrono::milliseconds(std::int64_t(suspicion * 500));
}

messages::connector_actor::behavior_type connector(
    messages::connector_actor::stateful_pointer<connector_state> self,
    std::shared_ptr<neighbours> by,
    std::chrono::milliseconds patience);

}  // namespace troupe::actors
