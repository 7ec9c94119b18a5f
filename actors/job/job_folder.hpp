// The folder of a run whose supervisor is in this process: what others see of it there, and what
// its processes know each other by.

#pragma once

#include "actors/job/prepare.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/trainer/job.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::actors {

/// One thread, but for the end of the process, which may come at any time: then the folder shows
/// that the run died.
class job_folder {
 public:
  /// Has this process as the supervisor of the run. `credentials`: a folder from which they are
  /// copied; empty: they are made, where the job has several processes. Throws input_error and
  /// io_error, and then the run has ended with that.
  job_folder(runtime::held_run_folder folder,
             const runtime::training_job& job,
             const std::filesystem::path& credentials = {});

  /// That of a run which this process goes on with, as its `incarnation`th supervisor: it has its
  /// credentials.
  job_folder(runtime::held_run_folder folder,
             const runtime::training_job& job,
             std::uint32_t incarnation);

  const runtime::held_run_folder& folder() const { return folder_; }

  /// The ledger is written down, if it is not yet, and where the job stands, once a second; nothing
  /// waits for that.
  void follow(const prepared_job& job);
  /// Says how the run ended; what cannot be written is warned of.
  void end(int exit_code, const std::string& reason);

 private:
  runtime::held_run_folder folder_;
  std::unique_ptr<runtime::entry_keeper> entry_;
};

/// This process's entry there, and its log.
inline constexpr const char* supervisors_entry = "supervisor";

}  // namespace troupe::actors
