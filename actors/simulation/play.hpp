// One simulated run of one job, and what was seen of it.

#pragma once

#include "actors/job/run.hpp"
#include "actors/simulation/disturbance.hpp"
#include "actors/simulation/mix.hpp"
#include "actors/simulation/small_job.hpp"
#include "actors/simulation/turn_trace.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::actors::simulation {

struct run_plan {
  std::uint64_t seed = 0;
  mix how = calm();
  int hosts = 1;  ///< of the processes that host ranks, where there are several
  std::vector<disturbance> disturbances = {};
  std::shared_ptr<turn_trace> trace = std::make_shared<turn_trace>();
};

/// What a viewer was told, what the run left behind, and how it ended.
struct seen_run {
  std::optional<outcome> end = {};  ///< nothing: nobody could go on, and it had not ended
  std::vector<runtime::step_report> committed = {};
  std::vector<runtime::validation_report> validated = {};
  std::set<std::uint64_t> samples = {};  ///< asked for, of the training set
  std::size_t leased = 0;                ///< at the end
  std::uint64_t dropped = 0;  ///< tickets that nobody had redeemed when their generation ended
  std::vector<std::string> actors_left = {}, fibers_left = {}, stuck_lanes = {};
  std::map<std::string, std::string> saved = {};  ///< files of weights and moments, by name: hashes
  /// Who was, while the run went on: "stage#12", "lane 0.1".
  std::vector<std::string> killed = {};
  std::vector<std::string> broken = {};     ///< connections, by both ends: "connection:0-1"
  std::vector<std::string> exchanged = {};  ///< processes that lived: "process:1"
  bool drained = false;                     ///< an early end was asked for
  bool disk_refused = false;
  bool state_lost = false;                      ///< what a rank had kept was damaged
  bool recovers = false;                        ///< who dies is replaced
  std::vector<std::string> restarts = {};       ///< of the ledger, who and at which step
  std::vector<runtime::run_event> events = {};  ///< that the monitors took down
  /// Iterations that the monitors took down; and the states after each step of the ledger.
  std::vector<std::uint64_t> taken_down = {};
  std::vector<runtime::digest> ledger = {};
  /// Faults had ended, nothing was late and all ran in turn, and yet it did not end in time.
  bool outlasts_faults = false;
  std::uint64_t turns = 0, ns = 0;
};

/// In as many virtual processes as the job's layout says. On this thread, which waits for nothing.
seen_run play(const small_prepared& job, const run_plan& how);

}  // namespace troupe::actors::simulation
