// Resources of a process for the supervisor of a run, and for the launcher beside it.

#pragma once

#include "actors/host/watch_resources.hpp"
#include "actors/support/command_desk.hpp"
#include "runtime/state/step_ledger.hpp"

#include <chrono>
#include <memory>

namespace troupe::actors {

struct supervisor_resources : virtual watch_resources {
  /// On the clock of the actor system, the only clock that actors read.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::shared_ptr<runtime::step_ledger> ledger = std::make_shared<runtime::step_ledger>();
  std::shared_ptr<command_desk> commands = {};  ///< null: the run takes no commands
  /// Starts the processes that host the ranks; null: this process hosts all of them.
  messages::agent_actor agent = {};
};

}  // namespace troupe::actors
