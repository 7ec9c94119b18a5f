// The output of `--dry-run`.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/layout/placement.hpp"

#include <string>
#include <vector>

namespace troupe::command {

/// Describes a job without running it: model, batch, learning rate, starting point and layout, then
/// layers, parameters, memory and plan of each rank. Allocates no model and writes no files. Only
/// warns if this machine is too small, because the plan may be for another. Throws input_error and
/// io_error if the run could not resume from its checkpoint. `hosts`: as from hosts_of.
std::string describe(const runtime::training_job& job,
                     const std::vector<runtime::host_slots>& hosts);

}  // namespace troupe::command
