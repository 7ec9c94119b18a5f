// Picks the fastest of several candidates from measured times.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace troupe::kernels::cuda {

struct fastest_candidate {
  std::size_t which;
  double microseconds = 0;  ///< median of the counted times; 0: no budget for any
};

/// `time(candidate)` runs a candidate once and returns its time in microseconds, or infinity if it
/// is refused; a refused candidate is not tried again.
///
/// 1. Each candidate runs once to load its code; this time is not counted.
/// 2. Each runs once more. Candidates that take more than twice as long as the second fastest are
///    dropped.
/// 3. The rest take turns, at least five times and more often if they are short, so that a falling
///    clock rate affects all equally.
/// 4. The smallest median wins. Among medians within 2 % the first candidate wins, so that a second
///    measurement gives the same choice.
///
/// It stops when the counted times reach `budget` microseconds. Loading times are not part of it,
/// because they depend on what was loaded before. The result is then based on the times so far, or
/// is the first candidate that was not refused. Empty if all are refused.
std::optional<fastest_candidate> fastest_of(std::size_t candidates,
                                            const std::function<double(std::size_t)>& time,
                                            double budget);

}  // namespace troupe::kernels::cuda
