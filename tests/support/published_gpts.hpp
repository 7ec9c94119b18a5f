// Configurations of published GPTs.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/model_description.hpp"

namespace troupe::tests {

/// GPT-2's shape.
inline runtime::gpt_config gpt2(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  runtime::gpt_config x;
  x.layers = layers;
  x.hidden = hidden;
  x.heads = x.groups = heads;
  x.head_size = hidden / heads;
  x.ffn = 4 * hidden;
  x.sequence = x.positions = 1024;
  x.vocabulary = 50257;
  x.padded_vocabulary = runtime::padded_vocabulary_size(50257, 128, 1);
  return x;
}

inline runtime::gpt_config llama3_8b() {
  runtime::gpt_config x;
  x.layers = 32;
  x.hidden = 4096;
  x.heads = 32;
  x.groups = 8;
  x.head_size = 128;
  x.ffn = 14336;
  x.sequence = x.positions = 8192;
  x.vocabulary = x.padded_vocabulary = 128256;
  x.position = runtime::position_embedding::rope;
  x.rotary_base = 500000;
  x.normalization = kernels::normalization::rms;
  x.activation = kernels::activation::silu;
  x.gated = true;
  x.linear_bias = x.tied_embeddings = false;
  x.hidden_dropout = x.attention_dropout = 0;
  return x;
}

/// Mixtral 8x7B.
inline runtime::gpt_config mixtral_8x7b() {
  auto x = llama3_8b();
  x.sequence = 4096;
  x.positions = 32768;
  x.vocabulary = x.padded_vocabulary = 32000;
  x.rotary_base = 1e6;
  x.experts.number = 8;
  x.experts.ffn = x.ffn;
  return x;
}

/// Qwen3-30B-A3B.
inline runtime::gpt_config qwen3_30b_a3b() {
  auto x = llama3_8b();
  x.layers = 48;
  x.hidden = 2048;
  x.groups = 4;
  x.ffn = 6144;
  x.sequence = 4096;
  x.positions = 40960;
  x.vocabulary = x.padded_vocabulary = 151936;
  x.rotary_base = 1e6;
  x.norm_epsilon = 1e-6;
  x.qk_norm = true;
  x.experts.number = 128;
  x.experts.chosen = 8;
  x.experts.ffn = 768;
  return x;
}

/// DeepSeek-V3 without its layer for further tokens.
inline runtime::gpt_config deepseek_v3() {
  auto x = llama3_8b();
  x.layers = 61;
  x.hidden = 7168;
  x.heads = x.groups = 128;
  x.ffn = 18432;
  x.sequence = 4096;
  x.positions = 163840;
  x.vocabulary = x.padded_vocabulary = 129280;
  x.rotary_base = 10000;
  x.rotary_interleaved = x.qk_norm = true;
  x.norm_epsilon = 1e-6;
  x.scaling = runtime::rope_scaling::yarn;
  x.scaling_factor = 40;
  x.scaling_positions = 4096;
  x.yarn_mscale_all = 1;
  x.latent = {.q_rank = 1536, .kv_rank = 512, .own_size = 128, .rotated = 64, .value_size = 128};
  x.head_size = 192;
  auto& y = x.experts;
  y.number = 256;
  y.chosen = 8;
  y.layers = "([0]*3+[1]*58)";
  y.ffn = y.shared_ffn = 2048;
  y.score = "sigmoid";
  y.scale = 2.5;
  y.groups = 8;
  y.group_topk = 4;
  y.expert_bias = true;
  return x;
}

}  // namespace troupe::tests
