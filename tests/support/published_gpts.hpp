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
  x.activation = kernels::activation::swiglu;
  x.linear_bias = x.tied_embeddings = false;
  x.hidden_dropout = x.attention_dropout = 0;
  return x;
}

}  // namespace troupe::tests
