// Compares an executed step with its plan.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

struct execution {
  double makespan = 0, planned_makespan = 0;  ///< in the unit of the times
  double bubble = 0, planned_bubble = 0;      ///< shares of the total time of all ranks
  double lateness = 0;                        ///< mean delay of the starts of actions; at least 0
  double worst_lateness = 0;                  ///< maximum delay of a start
  cost_model measured;                        ///< the costs of the simulation
  timeline planned;                           ///< starts at 0, like the executed timeline
  std::vector<std::vector<timed_action>> executed;  ///< on one clock
};

/// Simulates the executed rows with measured costs: the mean time of each kind of action on each
/// chunk, the usual gap between two actions of a rank, and the usual time of a hand-off. `frame`
/// gives only chunks, copies, placement and blocks; the rows are the executed ones, with B as I and
/// W. Throws broken_promise if they do not form a plan.
///
/// `clocks`: the clock of each rank's times; empty: one for all. The offset between two clocks is
/// half the difference of the shortest hand-offs between their ranks in both directions, as in NTP
/// (RFC 5905).
execution compare(const plan& frame,
                  std::vector<std::vector<timed_action>> executed,
                  const std::vector<std::uint64_t>& clocks = {});

}  // namespace troupe::runtime
