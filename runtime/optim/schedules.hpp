// Learning rate and batch size as pure functions of what has been consumed. Megatron-LM's formulas:
// everything is counted in samples.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::runtime {

enum class decay_style : std::uint8_t { constant, linear, cosine };

/// As users spell it.
constexpr std::string_view to_string(decay_style x) {
  return x == decay_style::constant ? "constant" : x == decay_style::linear ? "linear" : "cosine";
}

struct rate_schedule {
  double maximum = 0;
  double minimum = 0;
  double warmup_start = 0;
  std::int64_t warmup = 0;  ///< samples
  std::int64_t decay = 0;   ///< samples until the minimum is reached
  decay_style style = decay_style::linear;

  friend bool operator==(const rate_schedule&, const rate_schedule&) = default;
};

/// The rate of the step that begins after `consumed` samples.
///
///   n <= warmup:  start + (maximum - start) * n / warmup
///   constant:     maximum
///   n > decay:    minimum
///   else          minimum + c * (maximum - minimum), r = (n - warmup) / (decay - warmup),
///                 c = 1 - r (linear) or (1 + cos(pi r)) / 2 (cosine)
double learning_rate(const rate_schedule& schedule, std::int64_t consumed);

/// A schedule of the user's own. The name is part of a run's identity: a function cannot be
/// compared.
struct own_rate {
  std::string name = {};
  /// The rate of the step that begins after `consumed` samples; a pure function, called by any
  /// thread.
  std::function<double(std::int64_t consumed)> at = {};
};

struct batch_schedule {
  std::int64_t micro = 1;          ///< rows of a micro-batch
  std::int64_t global = 1;         ///< samples of a step
  std::int64_t data_parallel = 1;  ///< replicas
  std::int64_t ramp_start = 0;     ///< 0: none
  std::int64_t ramp_increment = 0;
  std::int64_t ramp_samples = 0;

  friend bool operator==(const batch_schedule&, const batch_schedule&) = default;
};

/// Samples of the step that begins after `consumed` samples.
std::int64_t global_batch_size(const batch_schedule& schedule, std::int64_t consumed);

/// Micro-batches of each replica in that step: global / (micro * data_parallel).
std::int64_t microbatches(const batch_schedule& schedule, std::int64_t consumed);

/// Throws input_error, naming the flags, unless every batch size that can occur divides evenly.
void check(const batch_schedule& schedule);

}  // namespace troupe::runtime
