// Credits: the maximum number of results of a stage that the next stage has not taken.
//
// A credit is space for one result at the rank that makes it. An action takes it at its start; it
// is returned when the receiver has redeemed the last ticket of the result. Without credits a slow
// receiver would leave as many leased tensors as the plan allows: all of them in a forward-only
// plan.
//
// Each pair of neighbouring stages on different ranks has its own credits in each direction. If the
// stages of a rank shared credits, earlier stages could take all of them and deadlock the later
// ones, which free them.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <vector>

namespace troupe::runtime {

/// Indexed by the maker of the result: copy x chunks + chunk. 0: the result stays on its rank, or
/// there is none.
struct handoff_credits {
  std::vector<int> activations;  ///< to the next chunk
  std::vector<int> gradients;    ///< to the previous chunk

  friend bool operator==(const handoff_credits&, const handoff_credits&) = default;
};

/// A stage and the next one on another rank, in one direction.
struct handoff {
  chunk_id from = {}, to = {};
  copy_id copy = {};
  int from_rank = 0, to_rank = 0;
  bool gradient = false;  ///< to the previous chunk
  int credits = 0;        ///< maximum of results that are made and not yet taken

  friend bool operator==(const handoff&, const handoff&) = default;
};

/// The hand-offs of a plan with credits: by copy and chunk, activations first.
std::vector<handoff> handoffs_of(const plan& x, const handoff_credits& credits);

/// Hides the transfer: one result is in transit while the receiver computes, and one more is being
/// made. Then no rank waits for the credit of a result that was just taken.
inline constexpr int credits_in_transit = 2;

/// For each hand-off: the maximum number of results between the start of their maker and the end of
/// their taker when the plan runs with these costs, plus `credits_in_transit`. A rank then waits
/// for a credit only if its receiver is later than these credits allow for. `told` > 0: this number
/// everywhere. Needs a sound plan without sends.
handoff_credits credits_of(const plan& x, const cost_model& by = {}, int told = 0);

}  // namespace troupe::runtime
