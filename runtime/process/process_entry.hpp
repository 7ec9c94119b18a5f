// The entry of a process in its run's folder: one file per process, written by that process.

#pragma once

#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace troupe::runtime {

/// Progress of the training, told by the supervisor.
struct training_progress {
  std::uint64_t steps = 0;                  ///< of the whole run
  std::optional<double> loss;               ///< of the newest step, nats per token; if finite
  std::optional<double> best_accuracy;      ///< of validations; only if the model measures one
  std::optional<double> tokens_per_second;  ///< over the newest steps
  std::optional<double> seconds_left;       ///< at their pace, without validations and saves
  bool operator==(const training_progress&) const = default;
};

/// After `step` of `steps`, by the newest reports, which ascend.
training_progress training_progress_of(std::span<const step_report> reports,
                                       std::uint64_t step,
                                       std::uint64_t steps);

/// Progress of a process.
struct process_progress {
  std::uint64_t generation = 0;  ///< 0: none yet
  std::uint64_t step = 0;        ///< newest committed step
  std::optional<training_progress> training;
  bool operator==(const process_progress&) const = default;
};

struct process_entry {
  std::string name;  ///< file name without .json; see is_process_name
  process_id process;
  std::string host;
  std::string role;                ///< main role: "supervisor", "node", "agent", ...
  std::vector<std::string> roles;  ///< all roles
  std::vector<int> ranks;          ///< ranks that it hosts
  std::uint64_t incarnation = 1;
  process_progress progress;
  bool operator==(const process_entry&) const = default;
};

std::string text_of(const process_entry& x);
/// Throws input_error; `what` begins the message.
process_entry read_process_entry(std::string_view text,
                                 const std::string& name,
                                 const std::string& what);

/// The entry of this process, with pid, start time and host.
process_entry entry_of_this_process(const std::string& name, const std::string& role);

/// Throws io_error.
void write_entry(const run_folder& to, const process_entry& x);
/// Also removes what killed writers left. No process may be writing the entry.
void remove_entry(const run_folder& of, const std::string& name);

/// An entry and whether its process runs; empty for a process of another host.
struct seen_process {
  process_entry entry;
  std::optional<bool> runs;
};

/// All entries, sorted by name. Empty while the next run is taking over the folder. Damaged entries
/// are reported to `complain` and left out.
std::vector<seen_process> seen_processes(const run_folder& of,
                                         const std::function<void(const std::string&)>& complain);

/// Keeps this process's entry up to date on its own thread: polls every second and writes changes.
/// Compute threads never wait for it. A failed write is logged once and retried.
class entry_keeper {
 public:
  entry_keeper(const run_folder& to, process_entry entry);
  ~entry_keeper();  ///< the entry stays in the folder
  entry_keeper(const entry_keeper&) = delete;
  entry_keeper& operator=(const entry_keeper&) = delete;

  /// Polls `ask` from now on, until `stop`, the next `follow` or the destructor. Any thread.
  void follow(std::function<process_progress()> ask);
  /// Stops polling and writes the last answer.
  void stop();

 private:
  void loop();
  void refresh();

  run_folder to_;
  process_entry entry_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<process_progress()> ask_;
  bool end_ = false, complained_ = false;
  std::jthread thread_;
};

}  // namespace troupe::runtime
