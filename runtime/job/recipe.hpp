// The hyperparameters of a training.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/family/model_description.hpp"
#include "runtime/model/expert_choice_settings.hpp"
#include "runtime/model/extension.hpp"
#include "runtime/model/model_spec.hpp"
#include "runtime/optim/loss_scale.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/optim/schedules.hpp"
#include "runtime/tensor/dtype.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

struct recipe {
  model_description model;
  extension own = {};  ///< the user's extension of the model
  std::uint64_t seed = 1234;
  optimizer_settings optimizer;
  rate_schedule rate;
  own_rate rate_of = {};                       ///< replaces `rate` if it has a function
  std::vector<rate_change> rate_changes = {};  ///< made by commands to the run, in their order
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

  expert_choice_settings expert_choices = {};

  static constexpr auto fields() {
    using x = recipe;
    return std::tuple(
        row("model", &x::model),
        row("own", &x::own),
        row("seed", &x::seed)
            .flag(
                {.name = "--seed",
                 .help = "Random seed of initial weights, dropout and the sample order.",
                 .megatron = "same sample order as Megatron-LM; other initial weights and dropout",
                 .range = whole_range{0, 4294967295},
                 .resume = at_resume::told}),
        row("optimizer", &x::optimizer),
        row("rate", &x::rate),
        row("rate_of", &x::rate_of),
        row("rate_changes", &x::rate_changes),
        row("batch", &x::batch),
        row("precision", &x::precision)
            .flag({.name = "--bf16",
                   .help = "Parameters and activations in bf16; master weights, moments and "
                           "gradients stay fp32.",
                   .megatron = "gradients are accumulated, reduced and kept in fp32",
                   .value = "bf16",
                   .gives = int(dtype::bf16),
                   .resume = at_resume::told})
            .flag({.name = "--fp16",
                   .help = "As --bf16, in fp16 and with loss scaling. On a CPU it saves memory and "
                           "is slower than --bf16.",
                   .megatron = "gradients are accumulated, reduced and kept in fp32",
                   .value = "f16",
                   .gives = int(dtype::f16),
                   .resume = at_resume::told}),
        row("scaling", &x::scaling),
        row("skippable_in_a_row", &x::skippable_in_a_row)
            .own_flag(
                {.name = "--max-skipped-in-a-row",
                 .unit = "steps",
                 .default_value = "10",
                 .help = "With --on-nonfinite skip: maximum number of consecutive skipped steps.",
                 .range = whole_range{1, largest_count},
                 .only_given = true}),
        row("per_token_loss", &x::per_token_loss)
            .flag({.name = "--calculate-per-token-loss",
                   .help = "Gives every counted token of a step the same weight. Without it, the "
                           "loss is first averaged per micro-batch, so a micro-batch with few "
                           "counted tokens weighs as much as one with many. Matters if samples are "
                           "masked (--sft, --fim-data, --eod-mask-loss).",
                   .resume = at_resume::told}),
        row("expert_choices", &x::expert_choices));
  }
};

/// The model to train.
model_spec spec_of(const recipe& recipe);
/// The letters of its units. Builds nothing: the recipe may be invalid.
unit_letters letters_of(const recipe& recipe);
/// Its losses, with their weights in the objective: see loss_spec::over_replicas.
std::vector<loss_spec> losses_of(const recipe& recipe);
/// Names of its losses for reports; empty: only "lm loss", with weight 1.
std::vector<std::string> loss_names(const recipe& recipe);

}  // namespace troupe::runtime
