// The values that Megatron-LM's scheduler keeps in a checkpoint and compares when it is loaded.

#pragma once

#include "runtime/optim/schedules.hpp"

#include <optional>
#include <string>

namespace troupe::runtime {

struct scheduler_values {
  rate_schedule rate;
  double weight_decay = 0;

  friend bool operator==(const scheduler_values&, const scheduler_values&) = default;
};

/// Those in the identity of a checkpoint; nothing when it has none. `where` begins messages. Throws
/// input_error when they are no values of a schedule.
std::optional<scheduler_values> scheduler_values_in(const std::string& identity,
                                                    const std::string& where);

/// "\n  `rate.maximum`: 0.001 there, 0.002 here", a line for each that differs.
std::string differences(const scheduler_values& there, const scheduler_values& here);

}  // namespace troupe::runtime
