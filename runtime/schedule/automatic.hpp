// Searches a schedule for measured times and a memory limit.

#pragma once

#include "runtime/schedule/generators.hpp"

#include <string>

namespace troupe::runtime {

struct found_schedule {
  plan what;               ///< named "auto"
  std::string from;        ///< the search that found it, or its named schedule
  double makespan = 0;     ///< with the costs of the request
  double lower_bound = 0;  ///< no plan with this placement and limit is faster
};

/// Returns the fastest plan found within the limits. It is never slower than the named single-copy
/// schedules that fit the limits. Ties: first plans that add micro-batches in order, then plans
/// that hold less memory. `memory_limit` 0: no limit. `chunks_per_rank` 0: tries 1 chunk, and 2
/// chunks in turn and in a V; otherwise uses the given number.
///
/// Deterministic. The effort is bounded by counts of actions: about a second for 8 ranks and 32
/// micro-batches, a few seconds for 64 and 512. Throws input_error with the smallest possible limit
/// if no plan fits the memory limit.
found_schedule find_best(const schedule_request& request);

}  // namespace troupe::runtime
