// Plays one simulated run of a job and records it.

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
  int hosts = 1;  ///< for processes of ranks, if there are several
  std::vector<disturbance> disturbances = {};
  std::shared_ptr<turn_trace> trace = std::make_shared<turn_trace>();
};

/// Record of a run: what a viewer saw, what the run left behind, and how it ended.
struct seen_run {
  std::optional<outcome> end = {};  ///< empty: nothing was runnable, but the run had not ended
  std::vector<runtime::step_report> committed = {};
  std::vector<runtime::validation_report> validated = {};
  std::set<std::uint64_t> samples = {};  ///< requested samples of the training set
  std::size_t leased = 0;                ///< leased tickets at the end
  std::uint64_t dropped = 0;             ///< tickets not redeemed before their generation ended
  std::vector<std::string> actors_left = {}, fibers_left = {}, stuck_lanes = {};
  /// Hashes of the files of weights and moments, by name.
  std::map<std::string, std::string> saved = {};
  /// Killed while the run was going on: "stage#12", "lane 0.1".
  std::vector<std::string> killed = {};
  std::vector<std::string> broken = {};  ///< connections, named by both ends: "connection:0-1"
  /// Living processes that the supervisor replaced: "process:1".
  std::vector<std::string> exchanged = {};
  bool drained = false;  ///< an early end was requested
  bool disk_refused = false;
  bool state_lost = false;                      ///< a rank's kept state was damaged
  bool recovers = false;                        ///< with recovery on
  std::vector<std::string> restarts = {};       ///< in the ledger: the dead member and the step
  std::vector<runtime::run_event> events = {};  ///< as recorded by the monitors
  /// Iterations recorded by the monitors, and the state after each step in the ledger.
  std::vector<std::uint64_t> taken_down = {};
  std::vector<runtime::digest> ledger = {};
  /// The run did not end in time in the liveness phase.
  bool outlasts_faults = false;
  std::uint64_t turns = 0, ns = 0;
};

/// Runs in the number of virtual processes given by the job's layout, on the calling thread, in
/// virtual time.
seen_run play(const small_prepared& job, const run_plan& how);

}  // namespace troupe::actors::simulation
