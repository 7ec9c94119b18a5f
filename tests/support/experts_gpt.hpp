// A tiny GPT with mixtures of experts.

#pragma once

#include "runtime/model/layers/experts.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <map>
#include <string>

namespace troupe::tests {

/// Two of four experts per row.
inline runtime::experts_spec tiny_experts() {
  return {.hidden = 16,
          .ffn = 6,
          .router = {.experts = 4, .chosen = 2},
          .layers = 2,
          .init_std = 0.2,
          .output_init_std = 0.2};
}

/// A tiny GPT of two layers with this module as second sublayer of each.
inline runtime::model_spec experts_gpt(const runtime::experts_spec& x, double dropout = 0) {
  auto config = tiny_gpt(2);
  config.hidden_dropout = dropout;
  auto out = runtime::gpt_spec(config);
  for (std::size_t l = 0; l < 2; ++l)
    out.part<runtime::layer_spec>(l).sublayers.at(1).get_if<runtime::residual_sublayer>()->body = x;
  return out;
}

/// By name, experts that cover each option except capacities and what chooses experts.
inline std::map<std::string, runtime::experts_spec> every_tiny_experts() {
  using kernels::activation, kernels::route_score;
  std::map<std::string, runtime::experts_spec> out;
  out["softmax of the chosen, swiglu"] = tiny_experts();

  auto& deepseek = out["sigmoid, groups, scale, shared experts, swiglu"] = tiny_experts();
  deepseek.shared_ffn = 5;
  deepseek.router.score = route_score::sigmoid;
  deepseek.router.groups = 2;
  deepseek.router.group_topk = deepseek.router.group_best = 1;
  deepseek.router.scale = 2.5;

  auto& qwen = out["softmax, shared experts with gate, gelu"] = tiny_experts();
  qwen.shared_ffn = 5;
  qwen.shared_gate = true;
  qwen.activation = activation::gelu_tanh;
  qwen.gated = false;
  qwen.router.score = route_score::softmax;

  auto& latent = out["sqrt softplus, latent, gelu erf, jitter"] = tiny_experts();
  latent.latent = 7;
  latent.activation = activation::gelu_erf;
  latent.gated = false;
  latent.router.score = route_score::sqrt_softplus;
  latent.router.jitter = 0.3;

  auto& one = out["one sigmoid, latent, shared experts, jitter"] = latent;
  one.shared_ffn = 5;
  one.router.score = route_score::sigmoid;
  one.router.chosen = 1;
  return out;
}

/// The same with choices that do not depend on the numbers, so that a loss has no jumps.
inline runtime::experts_spec with_forced_choice(runtime::experts_spec x) {
  x.router.choice = runtime::balance_choice::forced;
  return x;
}

}  // namespace troupe::tests
