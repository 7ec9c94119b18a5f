// A schedule made for measured times and a memory limit.

#pragma once

#include "runtime/schedule/generators.hpp"

#include <string>

namespace troupe::runtime {

struct found_schedule {
  plan what;               ///< named "auto"
  std::string from;        ///< which search found it, or which named schedule it is
  double makespan = 0;     ///< by the request's costs
  double lower_bound = 0;  ///< no plan of this placement and limit is faster
};

/// The fastest plan found within the limits, never slower than the named single-copy schedules that
/// keep them. `chunks_per_rank` 1 or 2 keeps to that many; 0 tries both. Deterministic. Throws
/// input_error when nothing fits the memory limit, with the least that would do.
found_schedule find_best(const schedule_request& how);

}  // namespace troupe::runtime
