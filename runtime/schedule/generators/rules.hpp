// The generators, one function each; generators.hpp tells which name is which. A request comes with
// positive ranks and micro-batches, and with the schedule's own number of chunks in place of 0.

#pragma once

#include "runtime/schedule/generators.hpp"

namespace troupe::runtime::schedules {

/// All forwards, then all backwards.
plan gpipe(const schedule_request& request);
plan one_forward_one_backward(const schedule_request& request);

/// Chunk after chunk, all micro-batches at each; back again the same way, last micro-batch first.
plan looped_breadth_first(const schedule_request& request);

/// Micro-batches go through a rank's chunks in rounds; rank r of p with v chunks warms up with the
/// v - 1 first chunks' part of the first round and 2 (p - 1 - r) forwards more.
plan interleaved(const schedule_request& request);

/// Interleaved with W apart from I: p - 1 - r forwards more to warm up, and on rank r each W comes
/// r input gradients late, so that every rank holds as much as the first.
plan zero_bubble_in_turn(const schedule_request& request);

/// ZB-H1 with up to twice as many forwards to warm up, as far as the memory limit lets.
plan zero_bubble_2(const schedule_request& request);

plan zero_bubble_v(const schedule_request& request);
plan v_half(const schedule_request& request);
plan v_min(const schedule_request& request);
plan dualpipe(const schedule_request& request);
plan dualpipe_v(const schedule_request& request);

/// With a row of nothing for each rank, and no name yet.
plan empty_plan(const schedule_request& request, std::vector<int> placement, int copies = 1);

}  // namespace troupe::runtime::schedules
