// Simulates a plan with the costs of its actions. All times are in one arbitrary unit.
//
// A rank executes its row in order. An action begins when the rank is free and its inputs have
// arrived. A result for another rank arrives `transfer` after the end of its action, or later if
// transfers queue. An overlapped pair begins when both actions could, and both end together.
// Explicit sends and receives take no time: a send starts at once, and a receive waits for its
// data.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/schedule/plan.hpp"

#include <utility>
#include <vector>

namespace troupe::runtime {

/// Costs of the actions of one chunk and micro-batch.
struct action_costs {
  double forward = 1, input_gradients = 1, weight_gradients = 1;
  double recompute = 0;  ///< of all recomputed blocks together
  /// An overlapped pair of F and B; for different chunks their mean. 0: the sum of both.
  double overlapped = 0;

  friend bool operator==(const action_costs&, const action_costs&) = default;

  static constexpr auto fields() {
    using x = action_costs;
    return std::tuple(row("forward", &x::forward),
                      row("input_gradients", &x::input_gradients),
                      row("weight_gradients", &x::weight_gradients),
                      row("recompute", &x::recompute),
                      row("overlapped", &x::overlapped));
  }
};

/// Memory of one micro-batch on one chunk, in any unit.
struct held_memory {
  double before_input_gradients = 1;   ///< from the start of F to the end of I or B
  double before_weight_gradients = 1;  ///< from the end of I to the end of W

  friend bool operator==(const held_memory&, const held_memory&) = default;
};

struct cost_model {
  std::vector<action_costs> costs = {{}};  ///< per chunk, or one for all
  std::vector<held_memory> held = {{}};    ///< per chunk, or one for all
  double transfer = 0;                     ///< from one rank to another
  /// Send queues per rank. 0: all transfers at once; 1: one after the other; 2: one queue for
  /// activations and one for gradients.
  int queues = 0;
  double overhead = 0;  ///< before each action or pair, on its rank; counted as idle

  const action_costs& cost_of(chunk_id c) const { return costs[costs.size() == 1 ? 0 : value(c)]; }
  const held_memory& held_by(chunk_id c) const { return held[held.size() == 1 ? 0 : value(c)]; }
};

/// Costs of F, I and W for a rank's whole share. A chunk costs and holds 1/v of it, so that
/// schedules are comparable.
cost_model shared_costs(const action_costs& of_a_rank, double chunks_per_rank);

struct timed_action {
  action what;
  double begin = 0, end = 0;

  friend bool operator==(const timed_action&, const timed_action&) = default;
};

struct rank_timeline {
  std::vector<timed_action> actions;  ///< in the order of the row
  double busy = 0;
  double first_begin = 0, last_end = 0;
  double peak_memory = 0;
  int peak_chunks = 0;  ///< maximum number of held micro-batches, summed over chunks
  std::vector<std::pair<double, double>> memory;  ///< (time, memory from then on), ascending

  double span_idle() const { return last_end - first_begin - busy; }
};

struct timeline {
  double makespan = 0;
  std::vector<rank_timeline> ranks;

  double idle(int rank) const { return makespan - ranks[std::size_t(rank)].busy; }
  /// Share of the total time of all ranks in which no action runs.
  double bubble() const;
};

/// Needs a sound plan (check.hpp), lowered or not; throws broken_promise on a deadlock. The blocks
/// of a chunk share its costs and its memory. O(actions).
timeline simulate(const plan& x, const cost_model& by);

}  // namespace troupe::runtime
