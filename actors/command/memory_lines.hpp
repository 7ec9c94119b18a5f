// Lines on memory in a run's log: the forecast at its start, the measured peak at its end.

#pragma once

#include "actors/command/run_training.hpp"
#include "actors/job/prepare.hpp"
#include "runtime/forecast/memory_forecast.hpp"

#include <vector>

namespace troupe::command {

using forecasts = std::vector<runtime::forecast_group>;

/// Throws if the workers do not fit into memory. Without this check the run would read its data,
/// and then be killed without a message or fail on a full device. Does nothing for workers on other
/// hosts, because their memory is unknown here.
void require_memory(const runtime::training_job& job,
                    const run_hosts& hosts,
                    const forecasts& groups);

/// Logs the forecast of the neediest worker, and what processes keep of each other.
void tell_memory(const runtime::training_job& job, const run_hosts& hosts, const forecasts& groups);

/// Logs the measured memory beside the forecast.
void compare_memory(const actors::prepared_job& prepared, const forecasts& groups);

}  // namespace troupe::command
