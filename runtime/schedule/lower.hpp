// A plan with everything in it that a rank takes part in.

#pragma once

#include "runtime/schedule/plan.hpp"

namespace troupe::runtime {

/// B is written as I and W; each F and I whose result another rank needs is followed by its send;
/// each receive stands before the action that needs it, and the receives of a link in the order of
/// its sends; each chunk's REDUCE_GRAD follows its last W. Chunks that are neighbours on one rank
/// need no transfer. A pair stays as it is, with its B; its receives stand before it, its sends
/// behind it. Of a sound plan; one that has sends stays as it is.
plan lowered(const plan& x);

/// The same row with each B written as I and W, and nothing else: what a stage carries out. A pair
/// of F and B becomes one of F and I; its W follows.
std::vector<action> with_split_backward(const std::vector<action>& row);

}  // namespace troupe::runtime
