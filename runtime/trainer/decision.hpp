// The decision about a step after all votes: one decision for all ranks, and the same one without
// actors.

#pragma once

#include "runtime/model/extension.hpp"
#include "runtime/model/gpt/gpt_config.hpp"
#include "runtime/model/model_spec.hpp"
#include "runtime/optim/loss_scale.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/optim/schedules.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The hyperparameters of a training.
struct recipe {
  gpt_config model;
  extension own = {};  ///< the user's extension of the model
  std::uint64_t seed = 1234;
  optimizer_settings optimizer;
  rate_schedule rate;
  own_rate rate_of = {};                       ///< replaces `rate` if it has a function
  std::vector<rate_change> rate_changes = {};  ///< by commands to the run, in their order
  batch_schedule batch;                        ///< data_parallel: logical replicas

  /// Type of parameters and activations: f32, bf16 or f16. Master weights, moments and gradients
  /// are always f32.
  dtype precision = dtype::f32;
  loss_scaling scaling;  ///< used only with f16

  /// Maximum number of consecutive skipped steps with a non-finite loss or gradient; one more ends
  /// the run. 0: the first one ends it. With a dynamic loss scale only steps at its minimum count;
  /// other overflows lower the scale and are always skipped.
  std::uint64_t skippable_in_a_row = 0;

  /// True: the gradient of the mean over all counted tokens of the step. False: the gradient of the
  /// mean over the tokens of each micro-batch, averaged with equal weights over micro-batches.
  bool per_token_loss = false;
};

/// The model to train. The model family is chosen only here and in loaded_model.
model_spec spec_of(const recipe& recipe);

/// The progress of a training, beside its parameters and moments.
struct training_position {
  std::uint64_t iteration = 0;  ///< steps done, including skipped ones
  std::uint64_t consumed = 0;   ///< samples read by these steps
  skipped_steps skipped;
  loss_scale scale = {};  ///< for the next step
};

/// The position before the first step.
training_position beginning(const recipe& recipe);

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
