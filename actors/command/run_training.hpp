// From a resolved job to actors at work.

#pragma once

#include "runtime/trainer/job.hpp"

namespace troupe::command {

/// Trains as `job` says: starts the node and the supervisor, waits until they are done. Returns the
/// exit code. `job` has no complaints.
int run_training(const runtime::training_job& job);

}  // namespace troupe::command
