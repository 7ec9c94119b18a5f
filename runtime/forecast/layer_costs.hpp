// Operations of one micro-batch on one rank, and their durations on a device.
//
// A product of R rows with a K x N matrix takes 2 R N K operations at a share of the peak rate, and
// moves R K + K N + R N elements at a share of the memory's bandwidth. Their sum is its duration,
// so small products come out less efficient. A backward pass has two such products: one for the
// inputs, and one for the parameters, which reads and writes the gradient sum. Fused attention runs
// 2.5 times its forward operations backward, because it computes the scores again (Dao,
// "FlashAttention-2", 2023). All other kernels take the time of their bytes.
//
// Each block with tensor ranks and sequences divided among them has two collectives forward and
// three backward. Two of the three may run beside products: the gather of the inputs beside the one
// for their gradients, and the scatter of these beside the one for the parameters.
//
// Products of layers in FP8 have the device's rate and one byte for each element that they read.
// Another kernel reads the array twice, for its scale and to round it, and writes two copies: the
// product for the parameters needs the transposed one (Micikevicius et al., "FP8 Formats for Deep
// Learning", 2022). Embedding, head and attention stay in the wider type.
//
// N context ranks have a part of the start and a part of the end of each sequence, so causal scores
// are balanced. In a forward pass keys and values go around their ring in N - 1 transfers, and in a
// backward pass their gradients too. Each transfer runs beside the attention of the part before
// (Liu et al., "Ring Attention with Blockwise Transformers", 2023).

#pragma once

#include "runtime/family/model_outline.hpp"
#include "runtime/forecast/assumptions.hpp"
#include "runtime/forecast/collective_costs.hpp"

namespace troupe::runtime {

/// Seconds of a part of a step, by what they are spent on.
struct step_parts {
  double products = 0, attention = 0, kernels = 0;
  double tensor = 0, experts = 0, context = 0;  ///< exchanges that nothing hides
  double handoffs = 0;                          ///< transfers between stages that nothing hides

  double all() const {
    return products + attention + kernels + tensor + experts + context + handoffs;
  }
  step_parts& operator+=(const step_parts& x);
  friend step_parts operator*(step_parts x, double factor);
};

struct pass_costs {
  step_parts forward, inputs, parameters;  ///< F, I and W

  pass_costs& operator+=(const pass_costs& x);
};

/// The part of a layer that a rank computes, and its peers.
struct rank_share {
  double rows = 0;  ///< R: tokens of a micro-batch on one context rank
  double tensor = 1, context = 1, expert = 1, expert_tensor = 1;
  bool sequence_parallel = false;
  double element = 2;           ///< bytes of an activation and of a parameter
  double gradient = 4;          ///< bytes of a sum of gradients
  double peak = 0;              ///< FLOP/s of products in this precision
  double fp8_peak = 0;          ///< FLOP/s of products of layers in FP8; 0: they have `element`
  bool fused_attention = true;  ///< false: scores go through memory, and all of them are computed
  bool fused_loss = true;
  bool overlap_tensor = false;  ///< two collectives of each block run beside products
  group_span tensor_ranks, context_ranks, expert_ranks, expert_tensor_ranks;
};

class layer_costs {
 public:
  layer_costs(const model_outline& model,
              const rank_share& share,
              const cluster_outline& on,
              const forecast_assumptions& by);

  pass_costs of_layer(const layer_outline& x) const;
  pass_costs of_embedding() const;
  pass_costs of_head() const;

  /// Seconds to read or write these bytes in a device's memory.
  double memory(double bytes) const { return bytes / memory_rate_; }

 private:
  void add_product(pass_costs& to,
                   double rows,
                   double inputs,
                   double outputs,
                   double matrices,
                   bool is_of_layer) const;
  void add_attention(pass_costs& to, const layer_outline& x) const;
  void add_collectives(pass_costs& to, const layer_outline& x) const;
  void add_context(pass_costs& to, const layer_outline& x) const;
  void add_traffic(pass_costs& to, traffic_outline x, double divisor, int kernels) const;

  const model_outline& model_;
  rank_share share_;
  collective_costs costs_;
  forecast_assumptions by_;
  double product_rate_, attention_rate_, memory_rate_;
};

/// Parameters of a rank in one layer: those of dense layers, and those of experts.
struct parameter_share {
  double dense = 0, experts = 0;
};
parameter_share parameters_of(const layer_outline& x, const rank_share& share);

}  // namespace troupe::runtime
