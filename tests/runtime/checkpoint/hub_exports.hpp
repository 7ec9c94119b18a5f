// Small GPTs for tests of exports to the Hub.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/tensor/box.hpp"

#include <span>
#include <string>
#include <string_view>

namespace troupe::tests {

inline runtime::gpt_config llama() {
  runtime::gpt_config x;
  x.layers = 2;
  x.hidden = 8;
  x.heads = 4;
  x.groups = 2;
  x.head_size = 2;
  x.ffn = 12;
  x.sequence = x.positions = 16;
  x.vocabulary = 7;
  x.padded_vocabulary = 8;
  x.position = runtime::position_embedding::rope;
  x.normalization = kernels::normalization::rms;
  x.activation = kernels::activation::silu;
  x.gated = true;
  x.linear_bias = x.tied_embeddings = false;
  return x;
}

/// Two layers; the second one has four experts in the kinds that allow a first one without.
inline runtime::gpt_config with_experts(std::string_view kind) {
  auto x = llama();
  auto& y = x.experts;
  y.number = 4;
  y.ffn = x.ffn;
  x.qk_norm = x.qk_norm_rows = y.pre_softmax = kind == "olmoe";
  if (kind == "mixtral" || kind == "olmoe")
    return x;
  y.ffn = 3;
  y.layers = "([0]+[1])";
  x.qkv_bias = kind == "qwen2_moe";
  x.qk_norm = kind != "qwen2_moe";
  y.pre_softmax = kind != "deepseek_v3";
  if (kind == "qwen2_moe") {
    y.shared_ffn = 5;
    y.shared_gate = true;
  }
  if (!kind.starts_with("deepseek"))
    return x;
  x.groups = x.heads;
  x.norm_epsilon = 1e-6;
  x.rotary_interleaved = true;
  x.latent = {.q_rank = 3, .kv_rank = 2, .own_size = 3, .rotated = 2, .value_size = 4};
  x.head_size = 5;
  y.shared_ffn = 6;
  y.scale = 2.5;
  y.groups = 2;
  y.group_topk = 1;
  y.group_score = kind == "deepseek_v2" ? "max" : "sum";
  y.score = kind == "deepseek_v2" ? "softmax" : "sigmoid";
  y.expert_bias = kind == "deepseek_v3";
  return x;
}

/// Elements that encode the parameter and their position.
inline void numbered(const std::string& name, const runtime::box& part, std::span<float> to) {
  const auto columns = part.extents.rank() == 1 ? 1 : part.extents[1];
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = float(name.size()) + float(part.first[0] * columns + std::int64_t(i)) / 1024;
}

}  // namespace troupe::tests
