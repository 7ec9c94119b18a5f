// The exchange of rows between the ranks of an expert axis.
//
//   auto plan = rows_of_experts(tape, {.chosen = chosen, .experts = 8, .each = 2});
//   auto there = dispatch(tape, x, weights, plan);        // rows of this rank's experts
//   auto rows = gather_rows(tape, there.rows, plan);      // with expert tensor ranks: of all these
//   auto factors = gather_rows(tape, there.weights, plan);
//   ...                                                   // products by plan->groups
//   auto y = combine(tape, scatter_rows(tape, z, plan), plan);
//
// A rank has the experts [rank E / EP, (rank + 1) E / EP). Its received rows lie by source rank,
// then by expert, then in the order of the source's rows. So a group (source, expert) has the rows,
// and the shape, that it has where one rank has all experts: no product depends on EP. Each row is
// summed at its source, in the order of its choices, in f32 and rounded once.
//
// alltoall sends single rows. allgather gathers all rows of all sources and takes single ones; back
// it sends single rows. Both have the same rows, and so the same bits. Every rank takes part in
// each collective, also one without a row. Waits throw `cancelled` (communicator.hpp).

#pragma once

#include "runtime/autograd/experts.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Numbers of rows of an exchange. A pure function of the counts of all ranks.
struct exchange_sizes {
  /// (EP) rows to and from each expert rank, as ends; see communicator.
  std::vector<std::int64_t> sent_ends, received_ends;
  /// (ETP) received rows of each expert tensor rank, as ends.
  std::vector<std::int64_t> gathered_ends;
  /// Of the gathered rows: for each expert tensor rank, each source, each expert of this rank.
  std::shared_ptr<const expert_groups> groups;
};

/// `counts` (ETP, EP, E): rows of each source for each expert. `at`, `at_tensor`: this rank along
/// expert and expert_tensor. Breaks EXPERTS-1 unless EP divides E.
exchange_sizes exchange_of(std::span<const std::int64_t> counts,
                           std::int64_t experts,
                           axis_rank at,
                           axis_rank at_tensor);

/// The plan of one exchange. Immutable: dispatch and combine of one micro-batch share it, and so do
/// their nodes.
struct row_exchange : exchange_sizes {
  row_slots sent;  ///< of this rank's rows, by expert, then by row
  /// allgather: (received rows) i32, row * slots + slot among the rows of all sources; -1: none.
  tensor taken;
  std::vector<std::int64_t> source_ends;  ///< allgather: (EP) rows of each source, as ends
};

/// What the router of this rank chose, on the host.
struct expert_choice {
  /// (R, each); -1: dropped. The experts of a row are distinct.
  std::vector<std::int32_t> chosen;
  std::int64_t experts = 0;  ///< of the layer
  std::int64_t each = 0;     ///< experts per row
  std::int64_t padded = 0;   ///< rows that each expert gets at least; further rows are 0
};

struct exchange_options {
  bool gathers = false;  ///< allgather
  /// Received rows with a shadow pool, divided by the balanced number: it has no choices.
  double shadow_load = 1;
};

/// Exchanges the counts of rows, and waits for them on the host. A recomputation makes the same
/// plan. Breaks EXPERTS-1 also for a chosen expert that does not exist.
std::shared_ptr<const row_exchange> rows_of_experts(tape& tape,
                                                    const expert_choice& x,
                                                    const exchange_options& options = {});

/// Rows of this rank's experts. Both are routed along expert and expert_tensor.
struct dispatched {
  variable rows;     ///< (received rows, C)
  variable weights;  ///< (received rows, 1) f32; 0 for padding
};
/// x is (R, C), weights (R, each) f32. With several tensor ranks both are sequence_sharded, else
/// replicated. I: the plan.
dispatched dispatch(tape& tape,
                    const variable& x,
                    const variable& weights,
                    std::shared_ptr<const row_exchange> by);

/// The rows of all expert tensor ranks, in the order of ranks: routed ->
/// replicated_partial_gradient along expert_tensor. Backward: this rank's rows of the sum. I: the
/// plan.
variable gather_rows(tape& tape, const variable& x, std::shared_ptr<const row_exchange> by);
/// The conjugate of gather_rows: partial -> routed along expert_tensor. I: the plan.
variable scatter_rows(tape& tape, const variable& x, std::shared_ptr<const row_exchange> by);

/// Back to the ranks of the rows, and the sum of each row's slots: (R, C), with the placements of
/// the input of `dispatch`. Rows without a choice are 0. I: the plan.
variable combine(tape& tape, const variable& x, std::shared_ptr<const row_exchange> by);

}  // namespace troupe::runtime
