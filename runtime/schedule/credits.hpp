// How many results a stage may have handed on that the next has not taken.
//
// A credit is room for one result at the rank that makes it: lent when the action begins, given
// back when the receiver has redeemed the last of its tickets. Without, the tensors that a slow
// receiver leaves leased would be as many as the plan happens to allow: of a plan that is forward
// only, all.
//
// Each pair of neighbouring stages on different ranks has its own, in either direction. Room that
// stages of one rank shared could be taken by the earlier ones, and the later ones, which alone can
// make room, would wait for it.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <vector>

namespace troupe::runtime {

/// By whose result it is: position copy x chunks + chunk. 0: it stays on its rank, or is none.
struct handoff_credits {
  std::vector<int> activations;  ///< to the next chunk
  std::vector<int> gradients;    ///< to the chunk before

  friend bool operator==(const handoff_credits&, const handoff_credits&) = default;
};

/// A stage and the next one on another rank, in one direction.
struct handoff {
  chunk_id from = {}, to = {};
  copy_id copy = {};
  int from_rank = 0, to_rank = 0;
  bool gradient = false;  ///< to the chunk before
  int credits = 0;        ///< so many of its results may be outstanding: made, and not yet taken

  friend bool operator==(const handoff&, const handoff&) = default;
};

/// Those of a plan that have credits: by copy and chunk, activations first.
std::vector<handoff> handoffs_of(const plan& x, const handoff_credits& credits);

/// The transfer is hidden when one result is on its way while the receiver computes, and one more
/// is being made: then neither rank waits for the credit of what was just taken.
inline constexpr int credits_in_transit = 2;

/// Most results between the begin of who makes them and the end of who takes them, when the plan is
/// carried out with these costs, and `credits_in_transit` more. So a rank waits for a credit only
/// where its receiver, which has as much to do as planned, is later than planned by more than these
/// hide; then the receiver decides when the step ends. `told` > 0: so many everywhere. Of a plan
/// without complaints and without sends.
handoff_credits credits_of(const plan& x, const cost_model& by = {}, int told = 0);

}  // namespace troupe::runtime
