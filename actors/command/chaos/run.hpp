// Executes one run of the job, undisturbed or with its faults of the plan, and judges the result.

#pragma once

#include "actors/command/chaos/oracles.hpp"
#include "actors/command/chaos/plan.hpp"
#include "runtime/core/cancel.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command::chaos {

/// The effect of one fault. Times are in seconds; empty: the recovery had no such part.
struct struck_fault {
  disturbance what;
  std::string victim;           ///< "node-1", "lane:0.1"
  pid_t pid = 0;                ///< of a process; 0 for an actor
  double at = 0;                ///< since the first committed step
  std::uint64_t committed = 0;  ///< the newest committed step at the strike
  std::optional<double> detect = {}, release = {}, respawn = {}, transfer = {}, rebuild = {},
                        replay = {};
  std::optional<double> first_new = {};  ///< from the fault to the first new step
  std::optional<std::uint64_t> resumed_from = {};
  std::uint64_t replayed = 0;  ///< committed steps that ran again
  std::uint64_t again = 0;     ///< `replayed`, and the step that was running
  std::uint64_t lost = 0;      ///< committed steps that were lost and did not run again
  std::string why;             ///< cause of the restart, from the ledger
  std::vector<std::string> replaced_ones = {};
  std::vector<std::string> survivors = {};  ///< names with the same process before and after
  /// False: the fault struck before this program had listed the processes, so that it cannot tell
  /// whether the victim was replaced.
  bool processes_seen = true;
  /// False: the fault struck without a visible effect, so it shows nothing.
  bool had_effect = true;
  sentences wrong = {};
};

struct run_result {
  std::uint64_t number = 0;      ///< 0: the undisturbed run
  std::filesystem::path folder;  ///< empty: removed
  int exit_code = 0;
  double seconds = 0;  ///< from the first committed step to the last
  std::uint64_t steps = 0;
  std::string digest;                              ///< of the last step
  std::uint64_t moves = 0, replayed_by_moves = 0;  ///< not counted as restarts or fault costs
  std::vector<struck_fault> faults = {};
  /// Violations: of the end of the run, then of CHAOS-1 to CHAOS-5.
  sentences ended = {}, state = {}, checkpoint = {}, ledger = {}, log = {}, left = {};

  bool holds() const;
  /// All violations, each with its oracle.
  sentences all_wrong() const;
};

/// The undisturbed run, which others are compared with.
struct reference_run {
  std::vector<logged_step> log;
  std::filesystem::path save;  ///< empty: no checkpoints to compare
  double step_seconds = 0;     ///< median time of a step

  std::uint64_t first() const { return log.front().iteration; }
  std::uint64_t last() const { return log.back().iteration; }
};
/// Reads the log of a run; its checkpoints are in `save` beside it, if that folder exists.
reference_run read_reference(const std::filesystem::path& log);

struct chaos_job {
  std::vector<std::string> command;  ///< the program, then "train", "gpt", ...
  double suspicion = 10;
  /// Shell commands that cut and restore a link between hosts; empty: links cannot be cut.
  std::string cut = {}, heal = {}, cut_one_way = {}, heal_one_way = {};
  std::vector<std::filesystem::path> node_folders = {};  ///< of all standing nodes of the job
  runtime::cancel_token stop = {};
};

/// Runs the job in `folder`. Throws `cancelled` after all its processes have been killed.
run_result run_undisturbed(const chaos_job& job, const std::filesystem::path& folder);

/// Runs the job with these faults, all of one run. Calls `tell` after each fault.
run_result run_disturbed(const chaos_job& job,
                         const std::filesystem::path& folder,
                         const std::vector<disturbance>& faults,
                         const reference_run& reference,
                         const std::function<void(const struck_fault&)>& tell);

}  // namespace troupe::command::chaos
