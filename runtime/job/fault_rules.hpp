// Checks that the planted faults and deaths of a job can occur in this run.

#pragma once

#include "runtime/job/job.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// One sentence for each mistake in job.faults and job.recovery; empty: none. Refuses a death that
/// would never occur or that no check would detect.
std::vector<std::string> validate_faults(const training_job& job);

}  // namespace troupe::runtime
