// Runs that a launcher or this command spreads over hosts: srun, mpirun, torchrun's environment, or
// a host file with ssh. docs/guides/clusters.md, docs/protocol/launch.md.

#pragma once

#include "actors/command/flags.hpp"
#include "runtime/launch/launch_environment.hpp"
#include "runtime/launch/meeting.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::command {

/// Trains with these flags and returns the exit code. `meeting`: the other processes of the launch;
/// null without.
using train_work
    = std::function<int(training_flags& flags, const std::shared_ptr<runtime::meeting>& meeting)>;

/// Trains as one of the processes of a launch, over the hosts of a host file, or else alone.
/// `words`: the command line. Completes the flags, calls `work` where the run's command is, and
/// returns the exit code of the run in each process. Throws what `work` throws, usage_error for
/// contradictory flags, and input_error for a launch that is refused (MEETING-1).
int run_launched(training_flags& flags,
                 const std::vector<std::string>& words,
                 const runtime::variable_reader& environment,
                 const train_work& work);

}  // namespace troupe::command
