// Operations of experts on a tape: rows to slots and back, and products of rows in groups. They
// follow the rules of ops.hpp.
//
// A router decides for each row, and the module makes the two values below from its choice, once
// per micro-batch. Weights of slots are f32 whatever the type of the tape. They go to their slots
// as (R * slots, 1), with `slot` of the same extents.

#pragma once

#include "runtime/autograd/ops.hpp"

#include <memory>
#include <vector>

namespace troupe::runtime {

/// The slots of R rows among S rows; each tensor is the inverse of the other (permute.hpp).
struct row_slots {
  tensor place;  ///< (S) i32, row * slots + slot; -1: none
  tensor slot;   ///< (R, slots) i32, one of the S rows; -1: none
};

/// Rows in groups of one expert, on the host. Where ranks share experts, a group is (expert, source
/// rank), so that products have the shapes that a rank with all experts has.
struct expert_groups {
  std::vector<std::int64_t> offsets;  ///< (G + 1) ascending from 0 to the number of rows
  std::vector<std::int32_t> experts;  ///< (G) number on this rank
  /// (G) rank of the source along the expert axis. Read only if the weight has several gradients.
  std::vector<std::int32_t> sources = {};
};

/// (R, C) -> (S, C): each slot gets its row; slots without a row are 0. All placements. I: slots.
/// Breaks GROUP-3, like the operations below, unless slots and weights fit the rows.
variable permute(tape& tape, const variable& x, const row_slots& slots);

/// (S, C) -> (R, C): the sum of a row's slots. All placements. I: slots.
variable unpermute(tape& tape, const variable& x, const row_slots& slots);

/// (S, C) -> (R, C): the sum of a row's slots by `weights` (R, slots). Both replicated along
/// expert_tensor. I: slots, x, weights.
variable unpermute(tape& tape, const variable& x, const row_slots& slots, const variable& weights);

/// The product of each group with its expert's weight (experts, features, K), plus bias (experts,
/// features). Placements as those of `linear`, along expert_tensor. I: weight. W: x, dy. Breaks
/// GROUP-1 unless the groups cover the rows. If the weight has a gradient for each source, W adds
/// the groups of each source to its own, in their order. Without `computes` the result is
/// undefined: a recomputation records the node alone (pass::unread).
variable grouped_linear(tape& tape,
                        const variable& x,
                        product kind,
                        std::shared_ptr<const expert_groups> groups,
                        std::int64_t experts,
                        std::int64_t features,
                        int weight,
                        int bias = no_parameter,
                        bool computes = true);

/// weights[r] * act(x[r]), with `weights` (R). x is feature_sharded along expert_tensor. weights
/// are replicated_partial_gradient there, because a rank sees its own features. I: x, weights. The
/// backward pass overwrites the memory of x, as that of `activation`.
variable weighted_activation(tape& tape,
                             const variable& x,
                             const variable& weights,
                             kernels::activation kind,
                             bool gated = false);

}  // namespace troupe::runtime
