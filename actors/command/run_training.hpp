// Runs a resolved job in this process: prepares it, starts its actors and waits for its end.

#pragma once

#include "actors/command/hosts.hpp"
#include "runtime/job/job.hpp"
#include "runtime/launch/meeting.hpp"
#include "runtime/process/front_connection.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::command {

/// Needs of a run besides its job.
struct run_request {
  std::string configuration;         ///< saved with the checkpoints
  std::vector<std::string> command;  ///< as it was typed
  std::filesystem::path run_folder;  ///< empty: .run in the save folder, if that is given
  bool temporary = false;            ///< the folder is removed at the end
  run_hosts hosts = {};
  runtime::front_connection* front = nullptr;  ///< shows the run; null: this process does
  std::string order = {};  ///< the order that started this process; empty without a front
  /// Number of this supervisor process. A successor (above 1) continues from the run's folder and
  /// shows nothing.
  std::uint32_t incarnation = 1;
  bool moved = false;                              ///< the run began on another host, which is lost
  std::shared_ptr<runtime::meeting> meeting = {};  ///< of the launch; null without
};

/// Passes requests to end of other processes of the launch to `ask`, for the lifetime of the
/// result. `ask` may come beside a signal of this process.
std::shared_ptr<void> requests_of_launch(const run_request& request,
                                         const std::function<void(const std::string& why)>& ask);

/// Ends this process at once, after it has told the other processes of the launch.
[[noreturn]] void end_at_once(const run_request& request, int exit_code);

/// The minimum severity of lines on the console.
runtime::severity level_of(const runtime::watch_settings& watch);

/// Timeout at the end of a process for a reader of its output.
constexpr auto reader_patience = std::chrono::seconds(5);

/// Trains as `job` says: starts the node and the supervisor and waits for their end. Returns the
/// exit code, and reports it to the front unless this throws. `job` is valid.
int run_training(const runtime::training_job& job, const run_request& request);

}  // namespace troupe::command
