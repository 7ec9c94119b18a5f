// Both ends of a repeated pattern have slots that only other micro-batches would fill. What comes
// there is moved to earlier slots, as long as no rank holds more than the fullest one did before.

#pragma once

#include "runtime/schedule/generators/slot_grid.hpp"

namespace troupe::runtime::schedules {

/// Everything before the steady part and after it; W has slots like all the rest, which are free
/// again in the end.
void draw_together(slot_grid& x);

/// What is after the steady part; W goes wherever a slot is free, and with each step that moves it
/// is thought anew.
void draw_end_together(slot_grid& x);

}  // namespace troupe::runtime::schedules
