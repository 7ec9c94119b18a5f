// What `--dry-run` tells of a job.

#pragma once

#include "runtime/trainer/job.hpp"

#include <string>
#include <vector>

namespace troupe::command {

/// Model, batch, learning rate, where it would start from, layout, and for each rank its layers,
/// parameters, memory and the row of its plan. Nothing of the model is allocated, and nothing is
/// written. Warns when this machine is too small: it may be planning for another. Throws
/// input_error and io_error when the run could not go on from its checkpoint. `hosts`: of each
/// process, as hosts_of has them.
std::string describe(const runtime::training_job& job, const std::vector<std::string>& hosts);

}  // namespace troupe::command
