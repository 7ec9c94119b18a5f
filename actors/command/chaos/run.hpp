// One run of the job, from its start to its end: undisturbed, or with the faults that the plan has
// for it.

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

/// What came of one fault. Times in seconds; nothing: it has no such part.
struct struck_fault {
  disturbance what;
  std::string victim;           ///< "node-1", "lane:0.1"
  pid_t pid = 0;                ///< of a process
  double at = 0;                ///< since the first step was committed
  std::uint64_t committed = 0;  ///< the newest step when it struck
  std::optional<double> detect = {}, release = {}, respawn = {}, transfer = {}, rebuild = {},
                        replay = {};
  std::optional<double> first_new = {};  ///< from the fault to the first step that is new
  std::optional<std::uint64_t> resumed_from = {};
  std::uint64_t replayed = 0;  ///< committed steps that ran again
  std::uint64_t again = 0;     ///< these and the one that was running
  std::uint64_t lost = 0;      ///< committed steps that nobody has any more
  std::string why;             ///< of the restart, as the run told it
  std::vector<std::string> replaced_ones = {};
  std::vector<std::string> survivors = {};  ///< that have the same process before and after
  /// False: it struck before this program had looked who stands, so whether somebody else is in the
  /// victim's place is not known.
  bool processes_seen = true;
  /// False: it struck, and nothing came of it that could be seen, so that nothing is shown by it.
  bool had_effect = true;
  sentences wrong = {};
};

struct run_result {
  std::uint64_t number = 0;      ///< 0: the undisturbed one
  std::filesystem::path folder;  ///< empty: it is gone
  int exit_code = 0;
  double seconds = 0;  ///< from the first committed step to the last
  std::uint64_t steps = 0;
  std::string digest;                              ///< the last
  std::uint64_t moves = 0, replayed_by_moves = 0;  ///< no restarts, and no fault's cost
  std::vector<struck_fault> faults = {};
  /// What is wrong by each oracle: the run as such, then CHAOS-1 to CHAOS-5.
  sentences ended = {}, state = {}, checkpoint = {}, ledger = {}, log = {}, left = {};

  bool holds() const;
  /// All that is wrong, each with its oracle.
  sentences all_wrong() const;
};

/// The undisturbed run, as others are compared with it.
struct reference_run {
  std::vector<logged_step> log;
  std::filesystem::path save;  ///< empty: its checkpoints are not known
  double step_seconds = 0;     ///< that a step takes, the median

  std::uint64_t first() const { return log.front().iteration; }
  std::uint64_t last() const { return log.back().iteration; }
};
/// Of the log of a run, whose checkpoints are in `save` beside it, if there is such a folder.
reference_run read_reference(const std::filesystem::path& log);

struct chaos_job {
  std::vector<std::string> command;  ///< the program, then "train", "gpt", ...
  double suspicion = 10;
  /// Commands for a shell that cut a link between hosts and heal it; empty: none can be.
  std::string cut = {}, heal = {}, cut_one_way = {}, heal_one_way = {};
  std::vector<std::filesystem::path> node_folders = {};  ///< of all standing nodes of the job
  runtime::cancel_token stop = {};
};

/// In that folder, which it makes. Throws `cancelled`, after all processes have been killed.
run_result run_undisturbed(const chaos_job& job, const std::filesystem::path& folder);

/// With these faults, all of one run. `tell`: of each that is over.
run_result run_disturbed(const chaos_job& job,
                         const std::filesystem::path& folder,
                         const std::vector<disturbance>& faults,
                         const reference_run& reference,
                         const std::function<void(const struck_fault&)>& tell);

}  // namespace troupe::command::chaos
