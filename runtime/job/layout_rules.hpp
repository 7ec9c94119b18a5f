// Rules for the layout of a job: mesh, stages, tensor parallelism, reduction, recomputation.

#pragma once

#include "runtime/job/job.hpp"

namespace troupe::runtime {

/// One sentence for each rule that the job breaks, except rules about unknown parts; empty: none.
std::vector<std::string> validate_layout(const training_job& job, const unknown_parts& unknown);

}  // namespace troupe::runtime
