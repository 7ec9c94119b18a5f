// The decision about a step after all votes: one decision for all ranks, and the same one without
// actors.

#pragma once

#include "runtime/job/recipe.hpp"
#include "runtime/state/training_position.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The combined votes of a step.
struct step_result {
  std::vector<loss_value> losses;  ///< of each logical replica, in order
  square_norms norms;              ///< of the reduced gradients
  /// The first parameter, in the order of the backward pass, with a non-finite gradient, and its
  /// stage. Empty: all are finite.
  std::string nonfinite_parameter, nonfinite_where;
};

struct step_verdict {
  /// Describes a non-finite loss or gradient; empty: all are finite.
  std::string fault;
  bool stops = false;  ///< with a fault: the run ends before the step; false: the step is skipped
  bool overflows = false;  ///< with a fault: skipped because a smaller loss scale may help
  /// Consecutive skipped steps before this one that count for skippable_in_a_row.
  std::uint64_t before = 0;

  update_decision update;  ///< with a fault: only the learning rate that the step would have had
  double loss = 0;         ///< mean over the tokens that count; NaN where none does
  double grad_norm = 0;    ///< before clipping, without the loss scale
  skipped_steps skipped;   ///< after this step
  loss_scale scale;        ///< after this step

  bool skips() const { return !fault.empty() && !stops; }
};

/// Decides the step after `at`. A skipped step counts as an iteration and consumes its samples; the
/// learning rate and the number of updates stay, as in Megatron-LM. Votes carry norms of the scaled
/// loss. With a loss per token these are norms of the total over all rows of the step, and this
/// function applies the missing factor rows / tokens (1 if no token counts).
step_verdict decide(const recipe& recipe, const training_position& at, const step_result& result);

/// The error message of a verdict that stops the run.
std::string diagnosis(const step_verdict& x, const training_position& at);

}  // namespace troupe::runtime
