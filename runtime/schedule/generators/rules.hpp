// The generators, one function each; generators.hpp maps names to them. A request must have
// positive ranks and micro-batches, and the number of chunks filled in.

#pragma once

#include "runtime/schedule/generators.hpp"

namespace troupe::runtime::schedules {

/// All forwards, then all backwards.
plan gpipe(const schedule_request& request);
plan one_forward_one_backward(const schedule_request& request);

/// Chunk after chunk, with all micro-batches at each; then back in the reverse order.
plan looped_breadth_first(const schedule_request& request);

/// Micro-batches go through a rank's chunks in rounds. Rank r of p with v chunks warms up with the
/// first round of its first v - 1 chunks and 2 (p - 1 - r) more forwards.
plan interleaved(const schedule_request& request);

/// Interleaved, with W separate from I: p - 1 - r more warm-up forwards, and on rank r each W is r
/// input gradients late, so that all ranks hold as much as the first.
plan zero_bubble_in_turn(const schedule_request& request);

/// ZB-H1 with up to twice as many warm-up forwards, as far as the memory limit allows.
plan zero_bubble_2(const schedule_request& request);

plan zero_bubble_v(const schedule_request& request);
plan v_half(const schedule_request& request);
plan v_min(const schedule_request& request);
plan dualpipe(const schedule_request& request);
plan dualpipe_v(const schedule_request& request);

/// A plan with an empty row for each rank and without a name.
plan empty_plan(const schedule_request& request, std::vector<int> placement, int copies = 1);

}  // namespace troupe::runtime::schedules
