// Which of several candidates is the fastest, by times alone.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace troupe::kernels::cuda {

struct fastest_candidate {
  std::size_t which;
  double microseconds = 0;  ///< the median of its times; 0: there was no budget for them
};

/// `time(candidate)` runs one once, and tells its microseconds; infinite where it is refused, which
/// it then is for good. The first time of each is not counted: it loads what is to run. After one
/// that is, those are left out that take more than twice as long as the second fastest; the others
/// take turns, so that a clock that sinks meanwhile is everybody's: five times, more of what is
/// short. Their medians count, and of those within 2 % the first candidate's, so that a rerun
/// chooses alike: the answer depends on the times and on nothing else.
///
/// When the times that count have come to `budget` microseconds no more are asked for. Those of
/// loading do not: the device waits in them for the host, and how long depends on what was loaded
/// before. So the answer is what is known by then, at the least the first candidate that was not
/// refused. Nothing where all are.
std::optional<fastest_candidate> fastest_of(std::size_t candidates,
                                            const std::function<double(std::size_t)>& time,
                                            double budget);

}  // namespace troupe::kernels::cuda
