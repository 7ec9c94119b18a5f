// Learning rate and batch size as pure functions of what has been consumed. Megatron-LM's formulas:
// everything is counted in samples.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

enum class decay_style : std::uint8_t { constant, linear, cosine, inverse_square_root, wsd };

/// How the rate falls at the end of `decay_style::wsd` (warm-up, stable, decay: Hu et al.:
/// "MiniCPM", 2024).
enum class wsd_style : std::uint8_t { exponential, linear, cosine, minus_sqrt };

/// How the weight decay grows from its start to its end.
enum class increase_style : std::uint8_t { constant, linear, cosine };

// As users spell them.
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
  double warmup = 0;       ///< samples; of a fraction of the decay not always whole
  std::int64_t decay = 0;  ///< samples until the minimum is reached
  decay_style style = decay_style::linear;

  // Of decay_style::wsd.
  wsd_style end_style = wsd_style::exponential;
  std::int64_t end_decay = 0;  ///< samples before the end of `decay` in which the rate falls

  // Of the word embedding and the output layer; the rest of their schedule is the same.
  double decoupled_maximum = 0;  ///< 0: that of all others
  double decoupled_minimum = 0;

  friend bool operator==(const rate_schedule&, const rate_schedule&) = default;
};

/// The rate of the step that begins after `consumed` samples, n.
///
///   n <= warmup:  start + (maximum - start) * n / warmup
///   constant:     maximum
///   n > decay:    minimum
///   inverse square root: max(minimum, maximum * sqrt(max(warmup, 1)) / sqrt(max(n, 1)))
///   else          minimum + c * (maximum - minimum), r = (n - warmup) / (decay - warmup),
///                 c = 1 - r (linear) or (1 + cos(pi r)) / 2 (cosine); of WSD c = 1 until
///                 end_decay samples are left, and then with the share q of them that is over
///                 1 - q (linear), (1 + cos(pi q)) / 2 (cosine), 2 * 0.5^q - 1 (exponential) or
///                 1 - sqrt(q) (minus_sqrt)
double learning_rate(const rate_schedule& schedule, std::int64_t consumed);

/// That of the word embedding and the output layer.
double decoupled_learning_rate(const rate_schedule& schedule, std::int64_t consumed);

struct weight_decay_schedule {
  double start = 0.01;
  double end = 0.01;  ///< the start's, where it is constant
  increase_style style = increase_style::constant;
  std::int64_t samples = 0;  ///< until the end is reached; 0: constant

  friend bool operator==(const weight_decay_schedule&, const weight_decay_schedule&) = default;
};

/// The weight decay of the step that begins after `consumed` samples, n: start + c * (end - start),
/// c = n / samples (linear) or (1 + cos(pi (1 - n / samples))) / 2 (cosine); end after `samples`.
double weight_decay(const weight_decay_schedule& schedule, std::int64_t consumed);

/// A schedule of the user's own. The name is part of a run's identity: a function cannot be
/// compared.
struct own_rate {
  std::string name = {};
  /// The rate of the step that begins after `consumed` samples; a pure function, called by any
  /// thread.
  std::function<double(std::int64_t consumed)> at = {};
};

/// Samples of a step from a threshold on.
struct batch_step {
  std::int64_t from = 0;  ///< samples consumed
  std::int64_t size = 1;  ///< samples of a step

  friend bool operator==(const batch_step&, const batch_step&) = default;
};

struct batch_schedule {
  std::int64_t micro = 1;          ///< rows of a micro-batch
  std::int64_t global = 1;         ///< samples of a step
  std::int64_t data_parallel = 1;  ///< replicas
  std::int64_t ramp_start = 0;     ///< 0: none
  std::int64_t ramp_increment = 0;
  std::int64_t ramp_samples = 0;
  std::vector<batch_step> steps = {};  ///< ascending, from 0; the last is `global`; empty: none

  friend bool operator==(const batch_schedule&, const batch_schedule&) = default;
};

/// Samples of the step that begins after `consumed` samples.
std::int64_t global_batch_size(const batch_schedule& schedule, std::int64_t consumed);

/// Micro-batches of each replica in that step: global / (micro * data_parallel).
std::int64_t microbatches(const batch_schedule& schedule, std::int64_t consumed);

/// "0:768 250B:1536": thresholds in tokens, of which a sample has so many, as Megatron-LM's
/// StepBatchsizeNumMicroBatchesCalculator reads them: K, M, B and T are thousands, millions, ...,
/// entries may be parted by commas, and stand in any order; a threshold is rounded down to whole
/// samples. Throws input_error.
std::vector<batch_step> batch_steps_from(std::string_view text, std::int64_t tokens_of_a_sample);

/// Whether the batch size never changes again after `consumed` samples.
bool is_settled(const batch_schedule& schedule, std::int64_t consumed);

/// Throws input_error, naming the flags, unless every batch size that can occur divides evenly.
void check(const batch_schedule& schedule);

}  // namespace troupe::runtime
