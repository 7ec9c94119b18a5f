// Lowering: completes a plan with transfers and reductions.

#pragma once

#include "runtime/schedule/plan.hpp"

namespace troupe::runtime {

/// Writes B as I and W. Adds a send after each F and I with a result for another rank, and a
/// receive before each action that needs it, in the order of the sends of its link. Adds each
/// chunk's REDUCE_GRAD after its last W. Neighbouring chunks on one rank need no transfer. A pair
/// keeps its B; its receives come before it and its sends after it. Needs a sound plan; a plan with
/// sends is returned unchanged.
plan lowered(const plan& x);

/// The row as a stage executes it: each B as I and W, without transfers. A pair of F and B becomes
/// a pair of F and I, followed by W.
std::vector<action> with_split_backward(const std::vector<action>& row);

}  // namespace troupe::runtime
