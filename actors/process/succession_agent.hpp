// The agent of the supervisor's own host, where it starts no place of the job: it is there to start
// a successor of the supervisor's process (docs/protocol/succession.md).

#pragma once

#include "actors/process/agent_link.hpp"
#include "actors/process/launch_settings.hpp"
#include "actors/support/message_path.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <chrono>
#include <memory>

namespace troupe::actors {

/// Used by the launcher alone, in its handlers.
class succession_agent {
 public:
  /// In the place of a host's number, in what it tells.
  static constexpr int host = -1;

  /// Is started now; a successor takes over that of the process before. `silence`: of this process,
  /// after which it counts as gone. Throws io_error.
  succession_agent(messages::launcher_actor::pointer self,
                   const std::shared_ptr<const message_path>& path,
                   const launch_settings& settings,
                   std::chrono::milliseconds silence);

  /// It says that; true: it refuses, which is for the launcher to tell. One that is gone is
  /// followed by another, three in a row at most.
  bool hear(const messages::agent_told& x);
  /// Nobody is to succeed this process any more. True: it is gone. The second time it is killed.
  bool end();
  bool has_ended() const { return is_ending_ && !agent_.is_there(); }

 private:
  agent_link agent_;
  int failures_ = 0;  ///< of agents in a row, that have said nothing
  bool is_ending_ = false;
};

}  // namespace troupe::actors
