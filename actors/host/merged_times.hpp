// Merges the times of workers in votes, so that they do not grow with the number of replicas.
//
// All workers of a stage are listed while they are few. Of more, those that are slowest by one of
// three times are listed, and the others are counted in bins. Both depend on the set of workers
// alone, so the result is the same in any order and grouping.

#pragma once

#include "messages/training/step.hpp"

#include <cstddef>

namespace troupe::actors {

constexpr std::size_t slowest_listed = 8;               ///< of a stage, by each of its times
constexpr std::size_t all_listed = 3 * slowest_listed;  ///< workers of a stage, at most

/// Moves the times of `x` into `to`. Both are sorted by stage and replica.
void merge_times(messages::vote& to, messages::vote& x);

/// Bins are 3 % wide or less; one has all times below a microsecond.
int bin_of(double seconds);
double middle_of_bin(int bin);  ///< seconds

}  // namespace troupe::actors
