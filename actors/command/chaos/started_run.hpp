// A run as a child of this process: its folders, its ledger as it grows, what it has of the
// machine.

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

/// One thread. When this object ends, however, no process of the run is left.
class started_run {
 public:
  /// `plants`: as --plant-death takes them. Throws io_error; and input_error, before anything is
  /// started: a standing node of the job has ended, or serves another run.
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
  /// Once a step was committed.
  const runtime::run_folder& folder() const { return *opened_; }
  const runtime::footprint& footprint() const { return footprint_; }
  standing_processes standing_now() const { return standing(*opened_, front_, job_.node_folders); }
  /// When that planted death struck first, in nanoseconds of the steady clock; nothing: it did not,
  /// or is about to say when.
  std::optional<std::uint64_t> struck_at(const std::string& plant) const;

  /// How often that trace is in what the run has told until now: the command that was typed, and
  /// the logs of all processes. A standing node's logs have those of runs before, too.
  std::size_t times_told(trace x) const;

  /// Takes down what its processes have of the machine now.
  void take_down() { footprint_.look(); }
  /// Looks at the ledger. Throws `cancelled` when this program is to end.
  void look();
  /// Until that holds: true; false: not within that time, or the run is over without it.
  bool wait(std::chrono::duration<double> at_most, const std::function<bool()>& holds);
  /// Its exit code, once it is over; of one whose front was killed as its folder says it.
  std::optional<int> exit_code();
  /// From now on its end is what the folder says.
  void without_front() { without_front_ = true; }
  /// Why it ended, as it told; empty: it did not.
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
