// What happens when, as data: for each rank the actions of one step, in order.
//
// Written as torch.distributed.pipelining writes its schedules: "1F3" is stage 1, forward,
// micro-batch 3; block 2 of a way back in several is "1I3.2".

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
};

struct action {
  action_kind kind = action_kind::forward;
  chunk_id chunk = {};  ///< position of the chunk in the model: its stage
  microbatch_id microbatch = {};
  /// Of R, B, I and W: which part of the chunk's way back; the last is the first to go.
  std::uint16_t block = 0;

  friend bool operator==(const action&, const action&) = default;
};

std::string to_string(const action& x);

struct plan {
  std::string name;
  int chunks = 0;        ///< of the model; chunk c is on rank placement[c]
  int microbatches = 0;  ///< of each replica
  bool training = true;  ///< false: forward only, as in validation
  std::vector<int> placement;
  std::vector<std::vector<action>> ranks;
  /// Of each chunk its blocks, ascending: 1 where R comes before I. Empty: one block each, without.
  std::vector<std::vector<char>> blocks = {};

  friend bool operator==(const plan&, const plan&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, action& x) {
  return f(x.kind, x.chunk, x.microbatch, x.block);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, plan& x) {
  return f(x.name, x.chunks, x.microbatches, x.training, x.placement, x.ranks, x.blocks);
}

/// One forward, one backward: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
/// 2021. Rank r warms up with min(ranks - 1 - r, microbatches) forwards.
plan one_forward_one_backward(int ranks, int microbatches);

/// Every chunk forward, micro-batches in order: validation, and decoding.
plan forward_only(int ranks, int microbatches);

/// The same plan with recomputation: every B, or I and W, is written as those of the blocks, the
/// last first, each R right before its I.
plan with_recomputation(plan x, const std::vector<std::vector<char>>& blocks);

/// Everything that is wrong with the plan, a sentence each; empty: it can be carried out.
///
///   PLAN-1  every (chunk, micro-batch) has F once, and in training each of its blocks B once or I
///           and W once each, on its rank; R once where it is rebuilt, else not
///   PLAN-2  R, I and B come after F, I after R and after I of the next block, W after I
///   PLAN-3  some order of all ranks satisfies every dependency: nobody waits for ever; the chain
///           of actions that wait for each other is named
///   PLAN-4  weight gradients are added in ascending order of micro-batches, so that every
///           single-copy schedule has the same bits
std::vector<std::string> complaints(const plan& x);

/// One row a rank, actions separated by commas.
std::string to_csv(const plan& x);

}  // namespace troupe::runtime
