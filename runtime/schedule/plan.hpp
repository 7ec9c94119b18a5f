// What happens when, as data: for each rank the actions of one step, in order.
//
// Written as torch.distributed.pipelining writes its schedules: "1F3" is stage 1, forward,
// micro-batch 3.

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
};

struct action {
  action_kind kind = action_kind::forward;
  chunk_id chunk = {};  ///< position of the chunk in the model: its stage
  microbatch_id microbatch = {};

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

  friend bool operator==(const plan&, const plan&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, action& x) {
  return f(x.kind, x.chunk, x.microbatch);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, plan& x) {
  return f(x.name, x.chunks, x.microbatches, x.training, x.placement, x.ranks);
}

/// One forward, one backward: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
/// 2021. Rank r warms up with min(ranks - 1 - r, microbatches) forwards.
plan one_forward_one_backward(int ranks, int microbatches);

/// Every chunk forward, micro-batches in order: validation, and decoding.
plan forward_only(int ranks, int microbatches);

/// Everything that is wrong with the plan, a sentence each; empty: it can be carried out.
///
///   PLAN-1  every (chunk, micro-batch) has F once, and in training B once or I and W once each,
///           on its rank
///   PLAN-2  I and B come after F, W after I
///   PLAN-3  some order of all ranks satisfies every dependency: nobody waits for ever; the chain
///           of actions that wait for each other is named
///   PLAN-4  weight gradients are added in ascending order of micro-batches, so that every
///           single-copy schedule has the same bits
std::vector<std::string> complaints(const plan& x);

/// One row a rank, actions separated by commas.
std::string to_csv(const plan& x);

}  // namespace troupe::runtime
