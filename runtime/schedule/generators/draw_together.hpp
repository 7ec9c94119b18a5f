// Compresses both ends of a repeated pattern. Their slots would only be filled by further
// micro-batches. Actions move to earlier slots, as long as no rank holds more than the maximum
// before.

#pragma once

#include "runtime/schedule/generators/slot_grid.hpp"

namespace troupe::runtime::schedules {

/// Compresses the part before the steady state and the part after it. W occupies slots meanwhile;
/// they are free again at the end.
void draw_together(slot_grid& x);

/// Compresses the part after the steady state. W may use any free slot, and is placed again after
/// each move.
void draw_end_together(slot_grid& x);

}  // namespace troupe::runtime::schedules
