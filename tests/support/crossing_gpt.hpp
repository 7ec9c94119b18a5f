// A tiny encoder and decoder with T5's parts: attention in both directions, cross-attention, and
// tables of biases, one for each stack.

#pragma once

#include "tests/support/two_lengths.hpp"

#include <string>
#include <utility>

namespace troupe::tests {

inline const std::string encoder_borders = "patch_documents";

/// two_lengths, but the layers of the decoder attend to the encoder's stream instead of adding it.
inline runtime::model_spec crossing_gpt(bool alibi = false) {
  auto out = two_lengths();
  out.streams.front().documents = encoder_borders;
  const auto attention_of = [&](std::size_t layer) -> runtime::attention_spec& {
    auto& first = out.part<runtime::layer_spec>(layer).sublayers.at(0);
    return *first.get_if<runtime::residual_sublayer>()->body.get_if<runtime::attention_spec>();
  };
  attention_of(0).causal = false;
  attention_of(0).relative_bias = {.buckets = 8, .most = 6, .both_ways = true, .init_std = 0.5};
  for (const std::size_t layer : {1, 2}) {
    auto& own = attention_of(layer);
    own.alibi = alibi;
    if (!alibi)
      own.relative_bias = {.buckets = 6, .most = 5, .init_std = 0.5};
    const runtime::cross_attention_spec cross{.keys = "encoder",
                                              .hidden = own.hidden,
                                              .key_width = own.hidden,
                                              .heads = own.heads,
                                              .groups = own.groups,
                                              .head_size = own.head_size,
                                              .scale = own.scale,
                                              .input_bias = true,
                                              .output_bias = true,
                                              .dropout = own.dropout,
                                              .init_std = 0.3,
                                              .output_init_std = 0.3,
                                              .key_rows = patches};
    auto& all = out.part<runtime::layer_spec>(layer).sublayers;
    all.pop_back();  // reads_encoder
    auto sublayer = *all.at(0).get_if<runtime::residual_sublayer>();
    sublayer.name = "cross_attention";
    sublayer.norm_before->name = "pre_cross_attn_layernorm";
    sublayer.body = cross;
    all.insert(all.begin() + 1, sublayer);
  }
  if (!alibi)
    attention_of(2).relative_bias->tied_to
        = "decoder.layers.0.self_attention.relative_attention_bias.weight";
  return out;
}

}  // namespace troupe::tests
