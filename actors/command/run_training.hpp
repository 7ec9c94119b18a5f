// From a resolved job to actors at work.

#pragma once

#include "actors/command/hosts.hpp"
#include "runtime/process/front_connection.hpp"
#include "runtime/trainer/job.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::command {

/// What of a run is no part of its job.
struct run_request {
  std::string configuration;         ///< kept with the checkpoints, if there are any
  std::vector<std::string> command;  ///< as it was typed
  std::filesystem::path run_folder;  ///< empty: below the save folder, if there is one
  bool temporary = false;            ///< the folder is removed at the end
  run_hosts hosts = {};
  runtime::front_connection* front = nullptr;  ///< shows the run; null: this process does
  std::string order = {};  ///< by which a process of its own was started for it; empty: none was
  /// Of the supervisor's process. Above 1: it goes on with what the one before has left in the
  /// folder, and shows nothing.
  std::uint32_t incarnation = 1;
  bool moved = false;  ///< the first was on another host, which is gone
};

/// Which lines of the log the user wants to see.
runtime::severity level_of(const runtime::watch_settings& watch);

/// How long the end of a process waits for a reader of its output.
constexpr auto reader_patience = std::chrono::seconds(5);

/// Trains as `job` says: starts the node and the supervisor, waits until they are done. Returns the
/// exit code. `job` has no complaints. A front is told the end here, too, unless this throws.
int run_training(const runtime::training_job& job, const run_request& request);

}  // namespace troupe::command
