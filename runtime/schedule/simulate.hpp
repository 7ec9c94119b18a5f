// When everything happens, by a plan and what each action costs. Times are in any one unit.
//
// A rank carries out its row in order. An action begins when the rank is free and what it needs has
// arrived; what it makes for another rank arrives `transfer` after its end, or later when transfers
// queue. An overlapped pair begins when both could, and ends both at once. Sends and receives that
// the plan writes out take no time: a send is off at once, and a receive waits for what it
// receives.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <utility>
#include <vector>

namespace troupe::runtime {

/// Of one chunk and micro-batch.
struct action_costs {
  double forward = 1, input_gradients = 1, weight_gradients = 1;
  double recompute = 0;  ///< of all blocks that are rebuilt, together
  /// An F and a B as a pair, of chunks that differ their mean; 0: as long as one after the other.
  double overlapped = 0;

  friend bool operator==(const action_costs&, const action_costs&) = default;
};

/// What one micro-batch on one chunk holds, in any unit of memory.
struct held_memory {
  double before_input_gradients = 1;   ///< from the begin of F to the end of I or B
  double before_weight_gradients = 1;  ///< from the end of I to the end of W

  friend bool operator==(const held_memory&, const held_memory&) = default;
};

struct cost_model {
  std::vector<action_costs> costs = {{}};  ///< of each chunk, or one for all
  std::vector<held_memory> held = {{}};    ///< likewise
  double transfer = 0;                     ///< from one rank to another
  /// Of a rank for what it sends: 0, every transfer at once; 1, one after the other; 2, one queue
  /// for activations and one for gradients.
  int queues = 0;
  double overhead = 0;  ///< before each action or pair, on its rank; it counts as idle

  const action_costs& cost_of(chunk_id c) const { return costs[costs.size() == 1 ? 0 : value(c)]; }
  const held_memory& held_by(chunk_id c) const { return held[held.size() == 1 ? 0 : value(c)]; }
};

/// F, I and W of a rank's whole share, as schedules are compared: a chunk takes 1/v of it, and
/// holds 1/v.
cost_model shared_costs(const action_costs& of_a_rank, double chunks_per_rank);

struct timed_action {
  action what;
  double begin = 0, end = 0;

  friend bool operator==(const timed_action&, const timed_action&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, timed_action& x) {
  return f(x.what, x.begin, x.end);
}

struct rank_timeline {
  std::vector<timed_action> actions;  ///< as the row
  double busy = 0;
  double first_begin = 0, last_end = 0;
  double peak_memory = 0;
  int peak_chunks = 0;                            ///< micro-batches held, each chunk's counted
  std::vector<std::pair<double, double>> memory;  ///< from when on how much is held, ascending

  double span_idle() const { return last_end - first_begin - busy; }
};

struct timeline {
  double makespan = 0;
  std::vector<rank_timeline> ranks;

  double idle(int rank) const { return makespan - ranks[std::size_t(rank)].busy; }
  /// Of all ranks' time, what nobody works in.
  double bubble() const;
};

/// A plan without complaints (check.hpp), lowered or not; throws broken_promise for one that
/// waits for ever. The blocks of a chunk share its costs and what it holds. O(actions).
timeline simulate(const plan& x, const cost_model& by);

}  // namespace troupe::runtime
