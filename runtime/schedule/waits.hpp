// Finds the cycles of waiting ranks in a plan that deadlocks.

#pragma once

#include "runtime/schedule/plan_graph.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// One sentence for each cycle of ranks that wait for each other: "rank 0 waits at 0B0 for 1B0 of
/// rank 1, which waits at 1F1 for 0F1 of rank 0; 2 other ranks wait for these". Empty: all rows
/// finish. O(actions). Needs a plan without missing actions.
std::vector<std::string> circular_waits(const plan_graph& graph);

}  // namespace troupe::runtime
