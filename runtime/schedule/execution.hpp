// Compares an executed step with its plan.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <vector>

namespace troupe::runtime {

struct execution {
  double makespan = 0, planned_makespan = 0;  ///< in the unit of the times
  double bubble = 0, planned_bubble = 0;      ///< shares of the total time of all ranks
  double lateness = 0;                        ///< mean delay of the starts of actions; at least 0
  double worst_lateness = 0;                  ///< maximum delay of a start
  cost_model measured;                        ///< the costs of the simulation
  timeline planned;                           ///< starts at 0, like the executed timeline
  std::vector<std::vector<timed_action>> executed;  ///< on the clock of rank 0
};

/// Simulates the executed rows with measured costs: the mean time of each kind of action on each
/// chunk, the usual gap between two actions of a rank, and the usual time of a hand-off. `frame`
/// gives only chunks, copies, placement and blocks; the rows are the executed ones, with B as I and
/// W. Throws broken_promise if they do not form a plan.
///
/// Rows of different hosts may have different clocks. If an action begins before its input from
/// another rank ended, the offset between the two ranks is half the difference of their shortest
/// hand-offs in both directions, as in NTP (RFC 5905).
execution compare(const plan& frame, std::vector<std::vector<timed_action>> executed);

}  // namespace troupe::runtime
