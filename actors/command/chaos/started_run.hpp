// A run as a child process: its folders, its growing ledger, and its resources on this machine.

#pragma once

#include "actors/command/chaos/run.hpp"
#include "actors/command/chaos/watch.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/footprint.hpp"
#include "runtime/process/run_folder.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command::chaos {

/// Not thread-safe. The destructor kills all processes of the run.
class started_run {
 public:
  /// Starts the run. `plants`: values for --plant-death. Throws io_error. Throws input_error before
  /// the start if a standing node of the job has ended or serves another run.
  started_run(const chaos_job& job,
              const std::filesystem::path& folder,
              const std::vector<std::string>& plants);
  ~started_run();
  started_run(const started_run&) = delete;
  started_run& operator=(const started_run&) = delete;

  std::filesystem::path run() const { return folder_ / "run"; }
  std::filesystem::path save() const { return folder_ / "save"; }
  std::filesystem::path log() const { return folder_ / "log.jsonl"; }
  std::filesystem::path temporary() const { return folder_ / "tmp"; }
  std::filesystem::path ledger_file() const { return run() / "ledger.jsonl"; }

  const ledger_watch& ledger() const { return ledger_; }
  const runtime::process_id& front() const { return front_; }
  /// Requires a committed step.
  const runtime::run_folder& folder() const { return *opened_; }
  const runtime::footprint& footprint() const { return footprint_; }
  standing_processes standing_now() const { return standing(*opened_, front_, job_.node_folders); }
  /// Time at which that planted death first struck, in nanoseconds of the steady clock; empty:
  /// not known yet.
  std::optional<std::uint64_t> struck_at(const std::string& plant) const;

  /// Number of log lines with that trace so far, in the output of the front and in the logs of all
  /// processes. The logs of a standing node include earlier runs.
  std::size_t times_told(trace x) const;

  /// Records the resources that its processes hold now.
  void take_down() { footprint_.look(); }
  /// Reads the ledger. Throws `cancelled` when this program is asked to end.
  void look();
  /// Waits until `holds` returns true. Returns false after `at_most`, or at the end of the run.
  bool wait(std::chrono::duration<double> at_most, const std::function<bool()>& holds);
  /// Exit code of the run once it is over. After the death of its front it comes from the folder.
  std::optional<int> exit_code();
  /// Takes the end of the run from its folder from now on, because the front is killed.
  void without_front() { without_front_ = true; }
  /// Reason of the end, from the run's record; may be empty.
  std::string reason() const;

 private:
  bool is_over();

  const chaos_job& job_;
  std::filesystem::path folder_;
  runtime::footprint footprint_;
  runtime::child_process child_;
  runtime::process_id front_;
  ledger_watch ledger_;
  std::optional<runtime::run_folder> opened_;
  std::optional<runtime::process_end> ended_;
  bool without_front_ = false;
};

}  // namespace troupe::command::chaos
