// A process of a launch of several (docs/protocol/launch.md). Rank 0 is the command of the run. The
// first process of each host starts its node. All end with the exit code of the run.
//
//   LAUNCH-2  A process of a launch trains only as a part of it.

#pragma once

#include "actors/command/launched_run.hpp"

namespace troupe::command {

/// Does the work of run_launched for a process of `by`. Each fault is told once on a host:
/// another process there returns 2 without a message.
int run_as_rank(const runtime::launch_environment& by,
                training_flags& flags,
                const std::vector<std::string>& words,
                const train_work& work);

}  // namespace troupe::command
