// Whether the faults and deaths that a job is to have are of this run.

#pragma once

#include "runtime/trainer/job.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// What is wrong with job.faults and job.recovery, one sentence each; empty: nothing. A death that
/// would come to nobody, or that nobody would notice, is wrong, too.
std::vector<std::string> validate_faults(const training_job& job);

}  // namespace troupe::runtime
