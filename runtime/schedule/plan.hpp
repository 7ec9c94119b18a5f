// What happens when, as data: for each rank the actions of one step, in order.
//
// Written as torch.distributed.pipelining writes its schedules (csv.hpp): "1F3" is stage 1,
// forward, micro-batch 3; block 2 of a backward pass in several is "1I3.2"; in a plan of two
// copies, as DualPipe has them, "a1F3" is of the first and "b1F3" of the second.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

enum class action_kind : std::uint8_t {
  forward,           ///< F
  backward,          ///< B: exactly I, then W
  input_gradients,   ///< I
  weight_gradients,  ///< W
  recompute,         ///< R: runs again what the forward pass forgot, before I
  // What lowering adds (lower.hpp): a rank's part in each transfer, and the sum over the data axis.
  send_activation,     ///< SEND_F: of this chunk's output
  receive_activation,  ///< RECV_F: of this chunk's input
  send_gradient,       ///< SEND_B: of the gradient of this chunk's input
  receive_gradient,    ///< RECV_B: of the gradient of this chunk's output
  reduce_gradients,    ///< REDUCE_GRAD: of the chunk; it has no micro-batch
};

struct action {
  action_kind kind = action_kind::forward;
  chunk_id chunk = {};            ///< position of the chunk in the model: its stage
  microbatch_id microbatch = {};  ///< counts those of its copy
  /// Of R, B, I and W: which part of the chunk's backward pass; the last is the first to go.
  std::uint16_t block = 0;
  copy_id copy = {};
  /// With the next action of the row an overlapped pair: they begin together and end together.
  bool with_next = false;

  friend bool operator==(const action&, const action&) = default;
};

/// In a plan of several copies with the letter of its own: "1F3", "b1F3", "1I3.2", "1REDUCE_GRAD".
std::string to_string(const action& x, int copies = 1);

struct plan {
  std::string name;
  int chunks = 0;              ///< of the model, in each copy
  int microbatches = 0;        ///< of each replica, over all copies: each has an equal share
  bool training = true;        ///< false: forward only, as in validation
  std::vector<int> placement;  ///< copy k of chunk c is on rank placement[k chunks + c]
  std::vector<std::vector<action>> ranks;
  /// Of each chunk its blocks, ascending: 1 where R comes before I. Empty: one block each, without.
  std::vector<std::vector<char>> blocks = {};
  /// Of the model. Two: each has weights of its own, and their gradients are summed.
  int copies = 1;

  int rank_of(chunk_id chunk, copy_id copy = {}) const {
    return placement[value(copy) * std::size_t(chunks) + value(chunk)];
  }
  int microbatches_each() const { return microbatches / copies; }

  friend bool operator==(const plan&, const plan&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, action& x) {
  return f(x.kind, x.chunk, x.microbatch, x.block, x.copy, x.with_next);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, plan& x) {
  return f(x.name, x.chunks, x.microbatches, x.training, x.placement, x.ranks, x.blocks, x.copies);
}

/// Chunk c on rank c mod `ranks`.
std::vector<int> placed_in_turn(int ranks, int chunks_per_rank);
/// Down the ranks and up again: chunk c on rank c, or 2 ranks - 1 - c.
std::vector<int> placed_in_v(int ranks);

/// One forward, one backward: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
/// 2021. Rank r warms up with min(ranks - 1 - r, microbatches) forwards.
plan one_forward_one_backward(int ranks, int microbatches);

/// Every chunk forward: validation, and decoding. The chunks of a rank take turns in the order in
/// which micro-batches reach them when all take equally long.
plan forward_only(int ranks, const std::vector<int>& placement, int microbatches);
plan forward_only(int ranks, int microbatches);

/// The same plan with recomputation: every B, or I and W, is written as those of the blocks, the
/// last first, each R right before its I.
plan with_recomputation(plan x, const std::vector<std::vector<char>>& blocks);

}  // namespace troupe::runtime
