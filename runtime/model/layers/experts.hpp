// A mixture of experts as body of a residual sublayer: a router, experts, and shared experts.
//
// Lepikhin et al.: "GShard", 2020; Fedus et al.: "Switch Transformers", 2021; DeepSeek-AI:
// "DeepSeek-V3", 2024. Names of parameters are Megatron-core's:
//
//   router.weight                       (E, C)      f32 in every store
//   router.expert_bias                  (E)         f32, a statistic: see parameter_spec::counted
//   experts.linear_fc1.weight           (E, N, K)   N = fan-in * ffn, K = width of the rows
//   experts.linear_fc2.weight           (E, K, ffn)
//   fc1_latent_proj.weight              (latent, C)
//   fc2_latent_proj.weight              (C, latent)
//   shared_experts.linear_fc1.weight, shared_experts.linear_fc2.weight
//   shared_experts.gate_weight          (1, C)      f32 in every store
//
// Segments, in order:
//
//   router         logits in f32, choice, weights; losses of the balance
//   counts         exchanges counts of rows along the expert axes
//   dispatch       rows and weights to the ranks of their experts
//   gather         with several expert tensor ranks: all rows of these ranks
//   fc1, act, fc2
//   scatter        with several expert tensor ranks: sum of fc2
//   combine        rows back to their ranks; the sum over the chosen experts
//   shared_experts.fc1, .fc2, .sum     with shared experts: a feed-forward layer, its gate, the sum
//
// Several tensor ranks need sharded rows (sequence parallelism), as in Megatron-LM.

#pragma once

#include "runtime/model/layers/router.hpp"

#include <cstdint>

namespace troupe::runtime {

struct experts_spec {
  std::int64_t hidden = 0;  ///< C
  std::int64_t ffn = 0;     ///< of an expert, after the activation
  std::int64_t latent = 0;  ///< width of the rows that experts get; 0: C
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;  ///< multiplies the shared experts by sigmoid(x gate_weight^T)
  kernels::activation activation = kernels::activation::silu;
  bool gated = true;
  router_spec router;
  std::int64_t layers = 1;  ///< modules of the model with these losses: see traits_of
  double init_std = 0, output_init_std = 0;
};

/// Replaces pass::x with its output, complete on each rank: replicated, or sequence_sharded. Throws
/// input_error unless the expert axis divides E and the expert tensor axis divides ffn.
int add(module_builder& to, const experts_spec& x);
/// Its losses have the weight times `layers`: a report shows their mean over the layers, as
/// Megatron-LM does, and the objective adds them.
module_traits traits_of(const experts_spec& x);
/// k experts per row, projections to and from the latent width, and the shared experts. Megatron-LM
/// does not count the router and the gate, so they are left out.
module_flops forward_flops(const experts_spec& x, std::int64_t T);

}  // namespace troupe::runtime
