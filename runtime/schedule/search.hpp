// Parts of the search for a schedule (automatic.hpp): greedy construction, improvement, bound.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// The schedules to search: single copy, no recomputation, micro-batches ascending everywhere.
struct search_problem {
  int ranks = 1, microbatches = 1;
  std::vector<int> placement;  ///< of each chunk
  cost_model costs;            ///< queues and overhead are ignored
  int capacity = 1;  ///< maximum of micro-batches per rank from F to W, summed over chunks

  int chunks() const { return int(placement.size()); }
  int chunks_per_rank() const { return chunks() / ranks; }
  std::int64_t actions() const { return 3ll * chunks() * microbatches; }
  double transfer_after(int chunk) const {  ///< same for both directions; 0 on one rank
    const auto c = std::size_t(chunk);
    return placement[c] == placement[c + 1] ? 0 : costs.transfer;
  }
};

/// Encodes an action as (kind * chunks + chunk) * microbatches + micro-batch, with kind 0 F, 1 I, 2
/// W.
using search_rows = std::vector<std::vector<std::uint32_t>>;

plan to_plan(const search_problem& of, const search_rows& rows);
/// Empty if the plan does not match the problem, or has pairs, R, or micro-batches out of order.
std::optional<search_rows> to_rows(const search_problem& of, const plan& x);

/// How a rank chooses among ready actions: Qi et al., "Zero Bubble Pipeline Parallelism", 2024,
/// section 3.1, with more parameters.
struct greedy_policy {
  /// Maximum number of micro-batches between F and I on a rank, in round trips from it to the end
  /// of the model and back; 0: limited by memory only.
  double depth = 0;
  bool forward_first = false;  ///< prefers F to I if both could begin
  bool late_chunks_first = true;
  bool late_gradients_first = false;
  double least_gap = 1;  ///< fills waits of at least this length with W; unit: W
  double patience = 0;   ///< F waits this long for an I that is about to arrive; unit: F
  int debt = 0;          ///< W comes first if this number of I have no W yet; 0: unlimited
  double more = 0;       ///< added to the depth of each rank; unit: number of ranks
  double tilt = 0;       ///< added once more for each earlier rank
  std::vector<int> extra_depth = {};  ///< per rank, added to the above; empty: none
  /// If not empty, F and I of a rank follow a pattern that each micro-batch repeats, and only W is
  /// chosen (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024). Each value is the
  /// additional length of a step to the next chunk, for F and I in turn, for each pass through the
  /// ranks.
  std::vector<double> steps = {};
  double period = 1;  ///< of the pattern; unit: the shortest that memory and work allow

  friend bool operator==(const greedy_policy&, const greedy_policy&) = default;
};

struct search_result {
  search_rows rows;
  double makespan = 0;
};

/// Simulates ranks that choose whenever they are free. No deadlock if each rank may hold a
/// micro-batch. A pattern that does not fit the memory has an infinite makespan.
search_result run_greedy(const search_problem& of, const greedy_policy& by);

/// The fastest result of run_greedy over several policies: first a few fixed ones, then variations
/// of the best one by one parameter, then of the depth of single ranks. Schedules at most about
/// `budget` actions; stops at `bound`.
search_result search_policies(const search_problem& of, double bound, std::int64_t budget);

/// Local search: swaps neighbours on the critical path (van Laarhoven, Aarts, Lenstra, "Job Shop
/// Scheduling by Simulated Annealing", 1992), drawn from a fixed seed, and accepts results that are
/// not much worse than the best so far (Dueck, "New Optimization Heuristics", 1993). Evaluates at
/// most `budget` actions. Never slower than `from`; stops at `bound`.
search_result improve(const search_problem& of,
                      search_result from,
                      double bound,
                      std::int64_t budget);

/// No plan of the problem has a shorter makespan. For each rank it adds the time before the first
/// action, the work, and the time after the last I. It also accounts for memory that is full before
/// the first I, and for memory slots that each micro-batch occupies for at least one round trip.
/// Valid with overlapped pairs too.
double lower_bound(const search_problem& of);

}  // namespace troupe::runtime
