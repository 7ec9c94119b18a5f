// The values that Megatron-LM's scheduler keeps in a checkpoint and compares when it is loaded.

#pragma once

#include "runtime/optim/schedules.hpp"

#include <optional>
#include <string>

namespace troupe::runtime {

struct scheduler_values {
  rate_schedule rate;
  weight_decay_schedule weight_decay;
  std::int64_t global_batch = 0;  ///< for messages, which also count in its steps; 0: unknown

  /// Whether the same rates and weight decays follow.
  friend bool operator==(const scheduler_values& a, const scheduler_values& b) {
    return a.rate == b.rate && a.weight_decay == b.weight_decay;
  }
};

/// Those in the identity of a checkpoint; nothing when it has none. `where` begins messages. Throws
/// input_error when they are no values of a schedule.
std::optional<scheduler_values> scheduler_values_in(const std::string& identity,
                                                    const std::string& where);

/// "\n  `rate.maximum`: checkpoint 0.001, this run 0.002", a line for each that differs; what is
/// counted in samples also in steps: "80 samples (10 steps of 8)".
std::string differences(const scheduler_values& there, const scheduler_values& here);

}  // namespace troupe::runtime
