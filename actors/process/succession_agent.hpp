// The agent of the supervisor's own host when it starts no place of the job. It starts a successor
// of the supervisor process (docs/protocol/succession.md).

#pragma once

#include "actors/process/agent_link.hpp"
#include "actors/process/launch_settings.hpp"
#include "actors/support/message_path.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <memory>

namespace troupe::actors {

/// Used only by the launcher, in its handlers.
class succession_agent {
 public:
  /// Host number in its messages.
  static constexpr int host = -1;

  /// Starts an agent, or takes over that of the previous process. `silence`: heartbeat timeout of
  /// this process. Throws io_error.
  succession_agent(messages::launcher_actor::pointer self,
                   const std::shared_ptr<const message_path>& path,
                   const launch_settings& settings,
                   std::chrono::milliseconds silence);

  /// Handles a message of the agent. Returns true when the agent refuses; the launcher logs that.
  /// Replaces an agent that is gone, at most three times in a row.
  bool hear(const messages::agent_told& x);
  /// Ends the agent, so that this process gets no successor. Returns true when it is gone. The
  /// second call kills it.
  bool end();
  bool has_ended() const { return is_ending_ && !agent_.is_there(); }

 private:
  agent_link agent_;
  int failures_ = 0;  ///< consecutive agents that ended without a message
  bool is_ending_ = false;
};

}  // namespace troupe::actors
