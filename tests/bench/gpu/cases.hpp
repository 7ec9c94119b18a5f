// The timed operations, with shapes of training.

#pragma once

#include "tests/bench/gpu/harness.hpp"

namespace troupe::bench {

struct model_shape {
  std::string name;
  std::int64_t hidden, heads, groups, ffn, vocabulary, T, rows;
  bool llama;  ///< SwiGLU, RMSNorm, rotary positions, no biases; else GPT-2's

  std::int64_t D() const { return hidden / heads; }
  std::int64_t fused() const { return (heads + 2 * groups) * D(); }
  std::int64_t sequences() const { return rows / T; }
  kernels::normalization norm() const {
    return llama ? kernels::normalization::rms : kernels::normalization::layer;
  }
};

/// GPT-2 124M, GPT-3 1.3B, a layer of Llama-3-8B. In a smoke test: tiny models of both kinds.
std::vector<model_shape> models(bool smoke);

void time_products(harness& in, const model_shape& m);  ///< products and attention
void time_rows(harness& in, const model_shape& m);      ///< operations between products
void time_experts(harness& in, const model_shape& m);   ///< a mixture of experts
void time_ends(harness& in, const model_shape& m);      ///< embedding and loss
void time_flat(harness& in, std::int64_t n);            ///< operations on all parameters

inline std::string by(std::int64_t a, std::int64_t b) {
  return std::to_string(a) + " x " + std::to_string(b);
}

}  // namespace troupe::bench
