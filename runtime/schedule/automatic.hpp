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
/// keep them; of equally fast ones that which adds micro-batches in order, then that which holds
/// least. `memory_limit` 0 is none. `chunks_per_rank` 1 or more keeps to that many; 0 tries 1 and
/// 2, these in turn and in a V.
///
/// Deterministic; the effort is bounded by counts of actions: about a second for 8 ranks and 32
/// micro-batches, a few for 64 and 512. Throws input_error when nothing fits the memory limit, with
/// the least that would do.
found_schedule find_best(const schedule_request& request);

}  // namespace troupe::runtime
