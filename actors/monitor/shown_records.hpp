// Adds a run's facts to its record ring, for viewers (docs/formats/telemetry.md).

#pragma once

#include "actors/host/opened_job.hpp"
#include "messages/control/sampling.hpp"
#include "messages/training/step.hpp"
#include "runtime/schedule/execution.hpp"
#include "runtime/state/ledger_record.hpp"
#include "runtime/telemetry/record_ring.hpp"
#include "runtime/telemetry/recorder.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

/// A timed step against its plan. Simulates the plan.
runtime::execution compared(const messages::committed& x, const opened_job& job);

/// Adds a `step`, `validation` or `event`. `past`: an earlier process reported it.
void show(runtime::record_ring& to,
          const runtime::watched& x,
          const runtime::log_settings& settings,
          bool past = false);

/// Adds a `command` that the run has taken.
void show(runtime::record_ring& to, const runtime::ledger::commanded& x, bool past = false);

/// Adds the `timeline` of a timed step. The hub's thread simulates the plan when a viewer first
/// asks for the record.
void show_timeline(runtime::record_ring& to,
                   const messages::committed& x,
                   const std::shared_ptr<const opened_job>& job);

/// A process, as viewers see it.
struct shown_process {
  std::string name, role;  ///< "node-1", "node"
  std::vector<int> ranks;
};
shown_process process_here(const opened_job& job);  ///< the supervisor's process
shown_process process_of(const opened_job& job, int process);

/// Adds a `process` record with one sample.
void show_process(runtime::record_ring& to, const shown_process& who, const messages::measured& x);

}  // namespace troupe::actors
