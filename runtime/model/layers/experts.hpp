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

#include "runtime/model/layers/module_spec.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

/// A loss of the balance of experts, over the rows of a micro-batch ("load_balancing_loss") or the
/// mean over its sequences ("seq_load_balancing_loss"). A router has each at most once.
struct weighted_balance {
  bool by_sequence = false;
  double weight = 0;
};

/// What chooses experts besides the scores.
enum class balance_choice : std::uint8_t {
  none,
  bias,      ///< a bias of each expert, changed once a step by the counts of all rows
  quantile,  ///< a bias of each expert, the mean of the quantiles of micro-batches
  sinkhorn,  ///< rows and experts are balanced by Sinkhorn's iterations, in training only
  forced,    ///< rows choose experts in turn, for benchmarks
};

/// The rows that stay within an expert's capacity.
enum class drop_policy : std::uint8_t {
  probability,  ///< those with the largest weights; equal weights: the first ones
  position,     ///< the first ones
};

struct router_spec {
  std::int64_t experts = 0;  ///< E
  std::int64_t chosen = 0;   ///< k
  kernels::route_score score = kernels::route_score::softmax_of_chosen;
  // See kernels::route_rules.
  std::int64_t groups = 1, group_topk = 1, group_best = 1;
  double scale = 1;
  balance_choice choice = balance_choice::none;
  double bias_rate = 1e-3;  ///< bias: step of the bias; quantile: 1 - decay of the mean
  double jitter = 0;        ///< rows times uniform(1 - jitter, 1 + jitter), in training only
  std::vector<weighted_balance> losses = {};
  double z_weight = 0;  ///< of "z_loss"; 0: none
  /// A rank sends an expert at most ceil(R k / E * capacity) of its R rows. 0: no limit. Decoding
  /// has no limit.
  double capacity = 0;
  bool pads = false;  ///< adds rows of zeros up to the capacity
  drop_policy drops = drop_policy::probability;
};

struct experts_spec {
  std::int64_t hidden = 0;  ///< C
  std::int64_t ffn = 0;     ///< of an expert, after the activation
  std::int64_t latent = 0;  ///< width of the rows that experts get; 0: C
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;  ///< multiplies the shared experts by sigmoid(x gate_weight^T)
  kernels::activation activation = kernels::activation::swiglu;
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
/// k experts per row, projections to the latent width, and the shared experts with their gate.
/// Megatron-LM does not count the router, so it is left out.
module_flops forward_flops(const experts_spec& x, std::int64_t T);

}  // namespace troupe::runtime
