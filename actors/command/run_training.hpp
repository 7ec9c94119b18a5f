// From a resolved job to actors at work.

#pragma once

#include "actors/command/hosts.hpp"
#include "runtime/trainer/job.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::command {

/// What of a run is no part of its job.
struct run_request {
  std::string configuration;         ///< kept with the checkpoints, if there are any
  std::vector<std::string> command;  ///< as it was typed
  std::filesystem::path run_folder;  ///< empty: below the save folder, if there is one
  run_hosts hosts = {};
};

/// Trains as `job` says: starts the node and the supervisor, waits until they are done. Returns the
/// exit code. `job` has no complaints.
int run_training(const runtime::training_job& job, const run_request& request);

}  // namespace troupe::command
