// Rules for the layout of a job: mesh, stages, tensor parallelism, reduction, recomputation.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/layout/seats.hpp"

namespace troupe::runtime {

/// One sentence for each rule that the job breaks, except rules about unknown parts; empty: none.
std::vector<std::string> validate_layout(const training_job& job, const unknown_parts& unknown);

/// Passes are verified only where the next replica has the same parameters (VERIFY-2). Appends a
/// sentence if it has not.
void validate_verification(const recovery_settings& recovery,
                           const seats& all,
                           std::vector<std::string>& wrong);

}  // namespace troupe::runtime
