// Schedules of learning rate, weight decay and batch size: pure functions of the consumed samples,
// with Megatron-LM's formulas.

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class decay_style : std::uint8_t { constant, linear, cosine, inverse_square_root, wsd };

/// Decay of the rate at the end of `decay_style::wsd` (warm-up, stable, decay: Hu et al.:
/// "MiniCPM", 2024).
enum class wsd_style : std::uint8_t { exponential, linear, cosine, minus_sqrt };

/// Growth of the weight decay from its start to its end.
enum class increase_style : std::uint8_t { constant, linear, cosine };

// Names in settings.
std::string_view to_string(decay_style x);
std::string_view to_string(wsd_style x);
std::string_view to_string(increase_style x);
std::optional<decay_style> decay_style_from(std::string_view name);
std::optional<wsd_style> wsd_style_from(std::string_view name);
std::optional<increase_style> increase_style_from(std::string_view name);

struct rate_schedule {
  double maximum = 0;
  double minimum = 0;
  double warmup_start = 0;
  double warmup = 0;       ///< in samples; fractional if given as a fraction of the decay
  std::int64_t decay = 0;  ///< samples until the minimum is reached
  decay_style style = decay_style::linear;

  // Only for decay_style::wsd.
  wsd_style end_style = wsd_style::exponential;
  std::int64_t end_decay = 0;  ///< length of the final decay, in samples

  // Rates of the word embedding and the output layer; the rest of their schedule is the same.
  double decoupled_maximum = 0;  ///< 0: same as the other parameters
  double decoupled_minimum = 0;

  friend bool operator==(const rate_schedule&, const rate_schedule&) = default;

  static constexpr auto changed_at_resume = at_resume::scheduler;
  static constexpr auto fields() {
    using x = rate_schedule;
    constexpr auto ends = [](const x& s) { return s.style == decay_style::wsd; };
    constexpr auto is_decoupled = [](const x& s) { return s.decoupled_maximum > 0; };
    return std::tuple(
        row("maximum", &x::maximum)
            .decides()
            .flag({.name = "--lr",
                   .help = "Peak learning rate (required).",
                   .range = real_range{0},
                   .only_given = true}),
        row("minimum", &x::minimum)
            .decides()
            .flag({.name = "--min-lr",
                   .help = "Final learning rate, after the decay.",
                   .range = real_range{0}}),
        row("style", &x::style)
            .decides()
            .flag({.name = "--lr-decay-style",
                   .type = "STYLE",
                   .help = "Shape of the decay after the warm-up. WSD: constant until the last "
                           "part, see --lr-wsd-decay-iters."})
            .one_of(decay_style::constant,
                    decay_style::linear,
                    decay_style::cosine,
                    decay_style::inverse_square_root,
                    decay_style::wsd),
        row("end_style", &x::end_style)
            .named("wsd_style")
            .decides(ends)
            .flag({.name = "--lr-wsd-decay-style",
                   .type = "STYLE",
                   .help = "With --lr-decay-style WSD: shape of the decay at the end."})
            .one_of(wsd_style::exponential,
                    wsd_style::linear,
                    wsd_style::cosine,
                    wsd_style::minus_sqrt),
        row("end_decay", &x::end_decay).named("wsd_decay").decides(ends),
        row("decay", &x::decay).decides(),
        row("warmup", &x::warmup).decides(),
        row("warmup_start", &x::warmup_start)
            .decides()
            .flag({.name = "--lr-warmup-init",
                   .help = "Learning rate at the start of the warm-up.",
                   .range = real_range{0}}),
        row("decoupled_maximum", &x::decoupled_maximum)
            .decides(is_decoupled)
            .flag({.name = "--decoupled-lr",
                   .default_value = "--lr",
                   .help = "Peak learning rate of the word embedding and the output layer.",
                   .range = real_range{.least = 0, .above = true},
                   .only_given = true}),
        row("decoupled_minimum", &x::decoupled_minimum)
            .decides(is_decoupled)
            .flag({.name = "--decoupled-min-lr",
                   .default_value = "--min-lr",
                   .help = "With --decoupled-lr: final learning rate of these two.",
                   .range = real_range{0},
                   .only_given = true}));
  }
};

/// Returns the rate of the step that begins after n = `consumed` samples.
///
///   n <= warmup:  start + (maximum - start) * n / warmup
///   constant:     maximum
///   n > decay:    minimum
///   inverse square root: max(minimum, maximum * sqrt(max(warmup, 1)) / sqrt(max(n, 1)))
///   else          minimum + c * (maximum - minimum), r = (n - warmup) / (decay - warmup),
///                 c = 1 - r (linear) or (1 + cos(pi r)) / 2 (cosine); for WSD c = 1 until
///                 end_decay samples are left; then, with the consumed share q of them,
///                 1 - q (linear), (1 + cos(pi q)) / 2 (cosine), 2 * 0.5^q - 1 (exponential) or
///                 1 - sqrt(q) (minus_sqrt)
double learning_rate(const rate_schedule& schedule, std::int64_t consumed);

/// A change of the learning rate during a run, by a command.
struct rate_change {
  std::uint64_t step = 0;  ///< first step with this factor
  double factor = 1;       ///< multiplies the schedule's rate until the next change

  friend bool operator==(const rate_change&, const rate_change&) = default;

  static constexpr auto fields() {
    using x = rate_change;
    return std::tuple(row("step", &x::step), row("factor", &x::factor));
  }
};
/// The factor of a step; 1 before the first change. `all`: in the order of the commands. The last
/// change that applies to the step wins.
double rate_factor(const std::vector<rate_change>& all, std::uint64_t step);

/// Returns the rate of the word embedding and the output layer.
double decoupled_learning_rate(const rate_schedule& schedule, std::int64_t consumed);

struct weight_decay_schedule {
  double start = 0.01;
  double end = 0.01;  ///< equal to start if constant
  increase_style style = increase_style::constant;
  std::int64_t samples = 0;  ///< until the end is reached; 0: constant

  friend bool operator==(const weight_decay_schedule&, const weight_decay_schedule&) = default;
};

/// Returns the weight decay of the step that begins after n = `consumed` samples: start + c * (end
/// - start), with c = n / samples (linear) or (1 + cos(pi (1 - n / samples))) / 2 (cosine). After
/// `samples` it is `end`.
double weight_decay(const weight_decay_schedule& schedule, std::int64_t consumed);

/// A user-defined schedule. Its name is part of a run's identity, because functions cannot be
/// compared.
struct own_rate {
  std::string name = {};
  /// Returns the rate of the step that begins after `consumed` samples. A pure function, called by
  /// any thread.
  std::function<double(std::int64_t consumed)> at = {};
};

/// The batch size from a threshold on.
struct batch_step {
  std::int64_t from = 0;  ///< samples consumed
  std::int64_t size = 1;  ///< samples of a step

  friend bool operator==(const batch_step&, const batch_step&) = default;

  static constexpr auto fields() {
    using x = batch_step;
    return std::tuple(row("from", &x::from), row("size", &x::size));
  }
};

struct batch_schedule {
  std::int64_t micro = 1;          ///< samples per micro-batch
  std::int64_t global = 1;         ///< samples of a step
  std::int64_t data_parallel = 1;  ///< replicas
  std::int64_t ramp_start = 0;     ///< 0: none
  std::int64_t ramp_increment = 0;
  std::int64_t ramp_samples = 0;
  std::vector<batch_step> steps = {};  ///< ascending, from 0; the last is `global`; empty: none

  friend bool operator==(const batch_schedule&, const batch_schedule&) = default;

  static constexpr auto fields() {
    using x = batch_schedule;
    return std::tuple(row("micro", &x::micro)
                          .decides()
                          .flag({.name = "--micro-batch-size",
                                 .unit = "samples",
                                 .help = "Samples per micro-batch, which passes the stages as a "
                                         "unit; memory grows with it (required).",
                                 .range = whole_range{1},
                                 .only_given = true}),
                      row("global", &x::global)
                          .decides()
                          .flag({.name = "--global-batch-size",
                                 .unit = "samples",
                                 .default_value = "one micro-batch per replica",
                                 .help = "Samples per step, over all replicas.",
                                 .range = whole_range{1},
                                 .only_given = true}),
                      row("data_parallel", &x::data_parallel).decides(),
                      row("ramp_start", &x::ramp_start),
                      row("ramp_increment", &x::ramp_increment),
                      row("ramp_samples", &x::ramp_samples),
                      row("steps", &x::steps));
  }
};

/// Returns the number of samples in the step that begins after `consumed` samples.
std::int64_t global_batch_size(const batch_schedule& schedule, std::int64_t consumed);

/// Returns the micro-batches per replica in that step: global / (micro * data_parallel).
std::int64_t microbatches(const batch_schedule& schedule, std::int64_t consumed);

/// Parses thresholds in tokens, "0:768 250B:1536", as Megatron-LM's
/// StepBatchsizeNumMicroBatchesCalculator does. K, M, B and T are thousands, millions, billions and
/// trillions. Entries may be separated by commas and stand in any order. A threshold is rounded
/// down to whole samples. Throws input_error.
std::vector<batch_step> batch_steps_from(std::string_view text, std::int64_t tokens_of_a_sample);

/// True if the batch size never changes after `consumed` samples.
bool is_settled(const batch_schedule& schedule, std::int64_t consumed);

/// Throws input_error with the flags if a batch size that can occur does not divide evenly.
void check(const batch_schedule& schedule);

}  // namespace troupe::runtime
