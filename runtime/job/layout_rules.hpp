// Rules for the layout of a job: mesh, stages, tensor parallelism, reduction, recomputation.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/layout/seats.hpp"

namespace troupe::runtime {

/// One sentence for each rule that the job breaks, except rules about unknown parts; empty: none.
std::vector<std::string> validate_layout(const training_job& job, const unknown_parts& unknown);

/// Passes are verified by the next group of replicas that exchange rows of experts (VERIFY-4).
/// Appends a sentence if replicas form no such groups.
void validate_verification(const recovery_settings& recovery,
                           const seats& all,
                           std::vector<std::string>& wrong);

}  // namespace troupe::runtime
