// The decision about a step after all votes: one decision for all ranks, and the same one without
// actors.

#pragma once

#include "runtime/job/recipe.hpp"
#include "runtime/state/training_position.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The losses of a step or an evaluation, as in step_report.
struct step_losses {
  double loss = 0;
  std::vector<named_loss> by_name;
};

/// Adds the parts of a vote; `to` has a sum for each loss of the model. Breaks STEP-10 if the parts
/// are not in the order of loss_part, or if one is of no such loss.
void add_to(std::vector<loss_value>& to, const std::vector<loss_part>& parts);
/// Returns the mean of each loss, and their weighted sum. `sums` has one for each of `losses`.
step_losses means_of(const std::vector<loss_spec>& losses, const std::vector<loss_value>& sums);

/// The combined votes of a step.
struct step_result {
  std::vector<loss_part> losses;  ///< of all logical replicas, sorted by loss_part::order
  square_norms norms;             ///< of the reduced gradients
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
  double loss = 0;         ///< as in step_report
  std::vector<named_loss> losses;
  double grad_norm = 0;   ///< before clipping, without the loss scale
  skipped_steps skipped;  ///< after this step
  loss_scale scale;       ///< after this step

  bool skips() const { return !fault.empty() && !stops; }
};

/// Decides the step after `at` of a model with these losses: losses_of(recipe). A skipped step
/// counts as an iteration and consumes its samples; the learning rate and the number of updates
/// stay, as in Megatron-LM. Votes carry norms of the scaled loss. With a loss per token these are
/// norms of the total over all rows of the step, and this function applies the missing factor rows
/// / tokens. The tokens are those of the model's first loss; the factor is 1 if none of them
/// counts, even if another loss has some.
step_verdict decide(const recipe& recipe,
                    const std::vector<loss_spec>& losses,
                    const training_position& at,
                    const step_result& result);

/// The error message of a verdict that stops the run.
std::string diagnosis(const step_verdict& x, const training_position& at);

}  // namespace troupe::runtime
