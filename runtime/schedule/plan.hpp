// A plan: for each rank the actions of one step, in order.
//
// The notation is that of torch.distributed.pipelining (csv.hpp): "1F3" is stage 1, forward,
// micro-batch 3; "1I3.2" is block 2 of a divided backward pass. In a plan with two copies, as in
// DualPipe, "a1F3" belongs to the first copy and "b1F3" to the second.

#pragma once

#include "runtime/core/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

enum class action_kind : std::uint8_t {
  forward,           ///< F
  backward,          ///< B: I, then W
  input_gradients,   ///< I
  weight_gradients,  ///< W
  recompute,         ///< R: repeats the forward pass of a block before I
  // Added by lowering (lower.hpp): a rank's part in each transfer, and the sum over the data axis.
  send_activation,     ///< SEND_F: sends this chunk's output
  receive_activation,  ///< RECV_F: receives this chunk's input
  send_gradient,       ///< SEND_B: sends the gradient of this chunk's input
  receive_gradient,    ///< RECV_B: receives the gradient of this chunk's output
  reduce_gradients,    ///< REDUCE_GRAD: of the chunk; has no micro-batch
};

struct action {
  action_kind kind = action_kind::forward;
  chunk_id chunk = {};            ///< position of the chunk in the model: its stage
  microbatch_id microbatch = {};  ///< number within its copy
  /// For R, B, I and W: the part of the chunk's backward pass; the last block comes first.
  std::uint16_t block = 0;
  copy_id copy = {};
  /// Overlapped with the next action of the row: both begin and end together.
  bool with_next = false;

  friend bool operator==(const action&, const action&) = default;
};

/// "1F3", "1I3.2", "1REDUCE_GRAD"; in a plan with several copies with the copy's letter: "b1F3".
std::string to_string(const action& x, int copies = 1);

struct plan {
  std::string name;
  int chunks = 0;              ///< of the model, in each copy
  int microbatches = 0;        ///< per replica, over all copies; each copy has an equal share
  bool training = true;        ///< false: forward only, as in validation
  std::vector<int> placement;  ///< copy k of chunk c is on rank placement[k chunks + c]
  std::vector<std::vector<action>> ranks;
  /// The blocks of each chunk, ascending; 1: R comes before I. Empty: one block each, without R.
  std::vector<std::vector<char>> blocks = {};
  /// Copies of the model. With two, each has its own weights, and their gradients are summed.
  int copies = 1;

  int rank_of(chunk_id chunk, copy_id copy = {}) const {
    return placement[value(copy) * std::size_t(chunks) + value(chunk)];
  }
  int microbatches_each() const { return microbatches / copies; }

  friend bool operator==(const plan&, const plan&) = default;
};

/// Chunk c is on rank c mod `ranks`.
std::vector<int> placed_in_turn(int ranks, int chunks_per_rank);
/// Down the ranks and up again: chunk c is on rank c, or 2 ranks - 1 - c.
std::vector<int> placed_in_v(int ranks);

/// One forward, one backward: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
/// 2021. Rank r warms up with min(ranks - 1 - r, microbatches) forwards.
plan one_forward_one_backward(int ranks, int microbatches);

/// Forward pass of all chunks, for validation and decoding. The chunks of a rank take turns in the
/// order in which micro-batches reach them with equal costs.
plan forward_only(int ranks, const std::vector<int>& placement, int microbatches);
plan forward_only(int ranks, int microbatches);

/// Adds recomputation to a plan: replaces each B, or I and W, by those of the blocks, last block
/// first, with R right before its I.
plan with_recomputation(plan x, const std::vector<std::vector<char>>& blocks);

}  // namespace troupe::runtime
