// The run's folder, in the process of its supervisor: shows the run's state to other programs and
// holds its credentials.

#pragma once

#include "actors/job/prepare.hpp"
#include "actors/job/run_hub.hpp"
#include "runtime/job/job.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::actors {

/// One thread. The process may end at any time; the folder then shows that the run died.
class job_folder {
 public:
  /// Makes this process the supervisor of the run. `credentials`: a folder to copy them from;
  /// empty: creates them when the job has several processes. Throws input_error and io_error, after
  /// it has recorded the run's end.
  job_folder(runtime::held_run_folder folder,
             const runtime::training_job& job,
             const std::filesystem::path& credentials = {});

  /// Continues a run as its supervisor of that incarnation. The folder has credentials already.
  job_folder(runtime::held_run_folder folder,
             const runtime::training_job& job,
             std::uint32_t incarnation);

  const runtime::held_run_folder& folder() const { return folder_; }

  /// Creates the ledger file unless it exists, publishes the job's progress every second, and
  /// starts the hub. Computing threads do not wait for any of this. Call it before `run`.
  void follow(const prepared_job& job);
  /// Records how the run ended; logs a warning when that fails.
  void end(int exit_code, const std::string& reason);

 private:
  runtime::held_run_folder folder_;
  std::uint32_t incarnation_ = 1;
  std::unique_ptr<runtime::entry_keeper> entry_;
  std::unique_ptr<run_hub> hub_;
};

/// Name of this process's entry and log.
inline constexpr const char* supervisors_entry = "supervisor";

}  // namespace troupe::actors
