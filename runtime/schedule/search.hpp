// Parts of the search for a schedule (automatic.hpp): greedy construction, improvement, bound.

#pragma once

#include "runtime/schedule/simulate.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::runtime {

/// What a schedule is sought for: single copy, no recomputation, micro-batches ascending
/// everywhere.
struct search_problem {
  int ranks = 1, microbatches = 1;
  std::vector<int> placement;  ///< of each chunk
  cost_model costs;            ///< queues and overhead are not looked at
  int capacity = 1;            ///< micro-batches that a rank may hold, each chunk's counted, F to W

  int chunks() const { return int(placement.size()); }
  int chunks_per_rank() const { return chunks() / ranks; }
  std::int64_t actions() const { return 3ll * chunks() * microbatches; }
  double transfer_after(int chunk) const {  ///< and back; 0 on one rank
    const auto c = std::size_t(chunk);
    return placement[c] == placement[c + 1] ? 0 : costs.transfer;
  }
};

/// An action as a number: (kind * chunks + chunk) * microbatches + micro-batch, kind 0 F, 1 I, 2 W.
using search_rows = std::vector<std::vector<std::uint32_t>>;

plan to_plan(const search_problem& of, const search_rows& rows);
/// Nothing for a plan that is none of the problem's, or has pairs, R, or micro-batches out of
/// order.
std::optional<search_rows> to_rows(const search_problem& of, const plan& x);

/// How a rank chooses among what it could do: Qi et al., "Zero Bubble Pipeline Parallelism", 2024,
/// section 3.1, with more to vary.
struct greedy_policy {
  /// So many micro-batches may be between F and I on a rank, in round trips from it to the end of
  /// the model and back; 0: as memory allows.
  double depth = 0;
  bool forward_first = false;  ///< of F and I, where both could begin
  bool late_chunks_first = true;
  bool late_gradients_first = false;
  double least_gap = 1;  ///< a wait so long, in W, is filled with W
  double patience = 0;   ///< F waits for I that arrives so soon, in F
  int debt = 0;          ///< so many I without W are enough: W comes first; 0: any number
  double more = 0;       ///< added to the depth of each rank, in parts of the number of ranks
  double tilt = 0;       ///< added once more for each rank before
  std::vector<int> extra_depth = {};  ///< of each rank, added to all that; empty: none
  /// Not empty: F and I of a rank are in the order of a pattern that every micro-batch repeats, so
  /// that only W are chosen (Qi et al., "Pipeline Parallelism with Controllable Memory", 2024): how
  /// much longer than it must each step to the next chunk takes, of F and of I by turns, for each
  /// pass through the ranks.
  std::vector<double> steps = {};
  double period = 1;  ///< of the pattern, in what memory and work allow at best

  friend bool operator==(const greedy_policy&, const greedy_policy&) = default;
};

struct search_result {
  search_rows rows;
  double makespan = 0;
};

/// Lets every rank decide whenever it is free. Never stuck when each rank may hold a micro-batch;
/// but a pattern that memory has no room for takes infinitely long.
search_result run_greedy(const search_problem& of, const greedy_policy& by);

/// The fastest that run_greedy makes with some policies: a few to begin with, the best of them
/// varied one choice at a time, then the depth of single ranks. Schedules at most about `budget`
/// actions; stops at `bound`.
search_result search_policies(const search_problem& of, double bound, std::int64_t budget);

/// Swaps neighbours on the critical path (van Laarhoven, Aarts, Lenstra, "Job Shop Scheduling by
/// Simulated Annealing", 1992), drawn from a fixed seed, and takes what is not much worse than the
/// best so far (Dueck, "New Optimization Heuristics", 1993). Times at most `budget` actions. Never
/// slower than what it is given; stops at `bound`.
search_result improve(const search_problem& of,
                      search_result from,
                      double bound,
                      std::int64_t budget);

/// No plan within the problem ends earlier: of each rank what must come before its first action,
/// its work, what must follow its last I; that memory is full before the first I; that each slot of
/// memory is taken for at least one round trip by each micro-batch that uses it. Overlapped pairs
/// are reckoned with.
double lower_bound(const search_problem& of);

}  // namespace troupe::runtime
