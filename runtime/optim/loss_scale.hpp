// Loss scaling for fp16 (Micikevicius et al.: "Mixed Precision Training", 2018). Small gradients
// underflow below 2^-24, so the loss is multiplied by a scale and the update divides by it. The
// scale is as large as the maximum of fp16, 65504, allows.
//
// The dynamic scale follows Megatron-LM. A step with non-finite gradients is skipped and lowers the
// hysteresis by 1. At 0 or less the scale is halved, down to the minimum. After `window` finite
// steps in a row the scale is doubled and the hysteresis is reset. With a window of 3, from 2^32:
//
//   finite     no   no   yes  no   yes  yes  yes
//   log2       32   31   31   30   30   30   31       after the step
//
// The state, loss_scale, is in runtime/telemetry/step_report.hpp.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>

namespace troupe::runtime {

struct loss_scaling {
  double constant = 0;  ///< 0: dynamic

  double initial = 4294967296.0;
  double minimum = 1;
  std::int64_t window = 1000;
  std::int64_t hysteresis = 2;

  friend bool operator==(const loss_scaling&, const loss_scaling&) = default;

  static constexpr auto fields() {
    using x = loss_scaling;
    constexpr auto dynamic = [](const x& s) { return s.constant <= 0; };
    return std::tuple(
        row("constant", &x::constant)
            .flag({.name = "--loss-scale",
                   .default_value = "dynamic, set by the next four flags",
                   .help = "Constant scale; --on-nonfinite then handles a step that is not finite.",
                   .megatron
                   = "with --fp16; refused without it, because gradients then need no scaling",
                   .range = real_range{1, 0x1p100},
                   .only_given = true})
            .decides([](const x& s) { return s.constant > 0; }),
        row("initial", &x::initial)
            .decides(dynamic)
            .flag({.name = "--initial-loss-scale",
                   .default_value = "4294967296",
                   .help = "Initial scale. It falls within a few steps.",
                   .megatron
                   = "with --fp16; refused without it, because gradients then need no scaling",
                   .range = real_range{1, 0x1p100},
                   .only_given = true}),
        row("minimum", &x::minimum)
            .decides(dynamic)
            .flag(
                {.name = "--min-loss-scale",
                 .default_value = "1",
                 .help
                 = "Minimum scale; --on-nonfinite handles a step that is not finite at this scale.",
                 .megatron
                 = "with --fp16; refused without it, because gradients then need no scaling",
                 .range = real_range{0x1p-100, 0x1p100},
                 .only_given = true}),
        row("window", &x::window)
            .decides(dynamic)
            .flag({.name = "--loss-scale-window",
                   .unit = "steps",
                   .default_value = "1000",
                   .help = "Consecutive finite steps before the scale is doubled.",
                   .megatron
                   = "with --fp16; refused without it, because gradients then need no scaling",
                   .range = whole_range{1, largest_count},
                   .only_given = true}),
        row("hysteresis", &x::hysteresis)
            .decides(dynamic)
            .flag({.name = "--hysteresis",
                   .unit = "steps",
                   .default_value = "2",
                   .help = "Steps that are not finite before the scale is halved; the count "
                           "restarts when it is doubled.",
                   .megatron
                   = "with --fp16; refused without it, because gradients then need no scaling",
                   .range = whole_range{1, largest_count},
                   .only_given = true}));
  }
};

/// Returns the scale of the first step.
loss_scale first_scale(const loss_scaling& scaling);

/// Returns the scale after a step.
loss_scale next_scale(const loss_scaling& scaling, loss_scale at, bool finite);

/// True if non-finite steps will lower the scale, at once or later.
bool can_fall(const loss_scaling& scaling, const loss_scale& at);

/// Returns the scale of a run that resumes from a checkpoint with scale `there`. A constant scale
/// comes from the run's settings.
loss_scale resumed_scale(const loss_scaling& scaling, const loss_scale& there);

}  // namespace troupe::runtime
