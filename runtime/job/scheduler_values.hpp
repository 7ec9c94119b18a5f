// The scheduler values that Megatron-LM stores in a checkpoint and compares when it loads one.

#pragma once

#include "runtime/optim/schedules.hpp"

#include <optional>
#include <string>

namespace troupe::runtime {

struct scheduler_values {
  rate_schedule rate;
  weight_decay_schedule weight_decay;
  /// Samples per step, for messages that also count in steps; 0: unknown.
  std::int64_t global_batch = 0;

  /// True if both give the same learning rates and weight decays.
  friend bool operator==(const scheduler_values& a, const scheduler_values& b) {
    return a.rate == b.rate && a.weight_decay == b.weight_decay;
  }
};

/// Reads the values in the identity of a checkpoint; nothing if it has none. `where` is the prefix
/// of error messages. Throws input_error if they do not form a valid schedule.
std::optional<scheduler_values> scheduler_values_in(const std::string& identity,
                                                    const std::string& where);

/// "\n  `rate.maximum`: checkpoint 0.001, this run 0.002": one line for each difference. Sample
/// counts are also given in steps: "80 samples (10 steps of 8)".
std::string differences(const scheduler_values& there, const scheduler_values& here);

}  // namespace troupe::runtime
