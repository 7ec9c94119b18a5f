// What was done when, beside what was planned.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <vector>

namespace troupe::runtime {

struct execution {
  double makespan = 0, planned_makespan = 0;  ///< in the unit of the times
  double bubble = 0, planned_bubble = 0;      ///< shares of all ranks' time
  double lateness = 0;  ///< of an action's begin behind its planned one, on average; not below 0
  double worst_lateness = 0;  ///< the largest
  cost_model measured;        ///< what the plan was simulated with
  timeline planned;           ///< begins when the executed one does: at 0
};

/// Simulates what the ranks carried out with the mean time that each kind of action took on each
/// chunk, the usual time between two actions of a rank, and the usual time that a hand-off took. Of
/// `frame` only chunks, copies, placement and blocks count: the rows are those that were executed,
/// with B as I and W. Throws broken_promise when they are no plan.
execution compare(const plan& frame, const std::vector<std::vector<timed_action>>& executed);

}  // namespace troupe::runtime
