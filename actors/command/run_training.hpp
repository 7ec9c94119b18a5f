// From a resolved job to actors at work.

#pragma once

#include "runtime/trainer/job.hpp"

#include <string>

namespace troupe::command {

/// Trains as `job` says: starts the node and the supervisor, waits until they are done. Returns the
/// exit code. `job` has no complaints. `configuration` is kept with the checkpoints, if there are
/// any.
int run_training(const runtime::training_job& job, const std::string& configuration);

}  // namespace troupe::command
