// A process of a launch that is not rank 0: the first one of a host starts its node.

#pragma once

#include "actors/command/launched_run.hpp"
#include "runtime/launch/launch_messages.hpp"

namespace troupe::command {

/// Joins rank 0 and waits for the end of the run. Returns its exit code.
int run_as_other_rank(const runtime::launch_environment& by,
                      const training_flags& flags,
                      runtime::launch_member self);

}  // namespace troupe::command
