// What becomes of a step, once everybody has voted: one decision for all ranks, and the same one
// without actors.

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

struct recipe {
  gpt_config model;
  extension own = {};  ///< what of the model is the user's
  std::uint64_t seed = 1234;
  optimizer_settings optimizer;
  rate_schedule rate;
  own_rate rate_of = {};  ///< in place of `rate`, where its function is given
  batch_schedule batch;   ///< data_parallel: the logical replicas

  /// Of parameters and activations: f32, bf16 or f16. Master weights, moments and
  /// gradients are f32 always.
  dtype precision = dtype::f32;
  loss_scaling scaling;  ///< with f16 alone

  /// Steps in a row that are left out because their loss or gradient is not finite; the next one
  /// ends the run. 0: the first does. With a dynamic loss scale those count
  /// that find it at its minimum: others are left out always, and lower it.
  std::uint64_t skippable_in_a_row = 0;

  /// The gradient is that of the mean over the tokens of the step that count. Else the mean over
  /// those of each micro-batch, then over the micro-batches: one with few weighs as much as one
  /// with many.
  bool per_token_loss = false;
};

/// The model that it trains. Here a family is chosen, and in loaded_model.
model_spec spec_of(const recipe& recipe);

/// Where a training stands, beside its parameters and moments.
struct training_position {
  std::uint64_t iteration = 0;  ///< steps done, those left out included
  std::uint64_t consumed = 0;   ///< samples that they read
  skipped_steps skipped;
  loss_scale scale = {};  ///< of the next step
};

/// Before the first step.
training_position beginning(const recipe& recipe);

/// What all votes of a step say together.
struct step_result {
  std::vector<loss_value> losses;  ///< of each logical replica, in their order
  square_norms norms;              ///< of the reduced gradients
  /// The parameter whose gradient the backward pass found not finite first, and the stage that has
  /// it: empty where all are.
  std::string nonfinite_parameter, nonfinite_where;
};

struct step_verdict {
  /// What is not finite, in words, and whether steps before it were not either; empty: it all is.
  std::string fault;
  bool stops
      = false;  ///< with a fault: the run ends and the step has not been; else it is left out
  bool overflows = false;  ///< with a fault: it is left out because a smaller loss scale may help
  /// Steps in a row before it that were left out, of those that count for skippable_in_a_row.
  std::uint64_t before = 0;

  update_decision update;  ///< with a fault only the rate that it would have had
  double loss = 0;         ///< mean over the tokens that count
  double grad_norm = 0;    ///< before clipping, of the loss itself
  skipped_steps skipped;   ///< after this step
  loss_scale scale;        ///< after this step

  bool skips() const { return !fault.empty() && !stops; }
};

/// The decision of the step after `at`. A step that is left out counts as an iteration and has read
/// its samples; the learning rate and the count of updates stay where they are, as in Megatron-LM.
/// Norms that were voted are of the scaled loss; with a loss per token, of its total over all rows
/// of the step: what they and the gradients lack is rows / tokens, and 1 where none counts.
step_verdict decide(const recipe& recipe, const training_position& at, const step_result& result);

/// The diagnosis of a verdict that stops.
std::string diagnosis(const step_verdict& x, const training_position& at);

}  // namespace troupe::runtime
