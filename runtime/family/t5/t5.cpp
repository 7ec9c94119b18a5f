#include "runtime/family/t5/t5.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gated_activation.hpp"
#include "runtime/family/typed_family.hpp"

#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

norm_options norm_of(const t5_config& c) {
  return {.kind = c.normalization == "RMSNorm" ? kernels::normalization::rms
                                               : kernels::normalization::layer,
          .epsilon = float(c.norm_epsilon)};
}

/// Initial deviations of the products of a stack.
struct deviations {
  double inner, attention_output, ffn_output, bias, table, query = 0;  // 0: as inner

  deviations(const t5_config& c, std::int64_t layers) {
    if (c.init_by_width) {
      inner = bias = 1 / std::sqrt(double(c.hidden));
      query = inner / std::sqrt(double(c.head_size));
      attention_output = 1 / std::sqrt(double(c.heads * c.head_size));
      ffn_output = 1 / std::sqrt(double(c.ffn));
      table = 1;
    } else {
      inner = bias = table = c.init_std;
      attention_output = ffn_output = c.init_std / std::sqrt(2.0 * double(layers));
    }
  }
};

/// Both kinds of attention have these settings.
template <class Attention>
Attention attention_of(const t5_config& c, const deviations& by) {
  Attention out;
  out.hidden = c.hidden;
  out.heads = out.groups = c.heads;
  out.head_size = c.head_size;
  out.scale = c.scores_scaled ? 1 / std::sqrt(double(c.head_size)) : 1.0;
  out.output_bias = c.linear_bias;
  out.dropout = c.attention_dropout;
  out.init_std = by.inner;
  out.output_init_std = by.attention_output;
  out.query_init_std = by.query;
  return out;
}

/// `tied_to`: the table of biases in the stack's first layer; empty: this one has it.
attention_spec self_attention_of(const t5_config& c,
                                 const deviations& by,
                                 bool causal,
                                 std::string tied_to) {
  auto out = attention_of<attention_spec>(c, by);
  out.qkv_bias = c.linear_bias;
  out.causal = causal;
  if (c.is_relative())
    out.relative_bias = relative_bias_spec{.buckets = c.buckets,
                                           .most = c.most_distance,
                                           .both_ways = !causal,
                                           .init_std = by.bias,
                                           .tied_to = std::move(tied_to)};
  return out;
}

cross_attention_spec cross_attention_of(const t5_config& c, const deviations& by) {
  auto out = attention_of<cross_attention_spec>(c, by);
  out.keys = "encoder";
  out.key_width = c.hidden;
  out.input_bias = c.linear_bias;
  out.key_rows = c.encoder_sequence;
  return out;
}

layer_spec layer_of(const t5_config& c,
                    const deviations& by,
                    bool decoder,
                    const std::string& biases) {
  const auto activation = activation_named(c.activation);
  layer_spec out;
  const auto add = [&](const char* name, const char* norm, module_spec body) {
    out.sublayers.emplace_back(residual_sublayer{.name = name,
                                                 .norm_before = norm_spec{norm, norm_of(c)},
                                                 .body = std::move(body),
                                                 .dropout = c.hidden_dropout});
  };
  add("self_attention", "input_layernorm", self_attention_of(c, by, decoder, biases));
  if (decoder)
    add("cross_attention", "pre_cross_attn_layernorm", cross_attention_of(c, by));
  add("mlp",
      "pre_mlp_layernorm",
      feed_forward_spec{.hidden = c.hidden,
                        .ffn = c.ffn,
                        .activation = activation.function,
                        .gated = activation.gated,
                        .bias = c.linear_bias,
                        .init_std = by.inner,
                        .output_init_std = by.ffn_output});
  return out;
}

}  // namespace

model_spec t5_spec(const t5_config& c, const extension& own) {
  if (!own.name.empty() || own.feed_forward || own.loss || !own.losses.empty())
    throw input_error("a T5 takes no extension, but '{}' is given; leave it out", own.name);
  model_spec out{.sequence = c.decoder_sequence,
                 .streams = {{.name = "encoder",
                              .width = c.hidden,
                              .positions = "encoder_positions",
                              .documents = "encoder_documents"},
                             {.name = "decoder", .width = c.hidden}}};
  const auto add_layers = [&](char letter, const std::string& stack, std::int64_t layers) {
    const deviations by(c, layers);
    const auto table = stack + ".layers.0.self_attention.relative_attention_bias.weight";
    for (std::int64_t l = 0; l < layers; ++l) {
      const auto name = stack + ".layers." + std::to_string(l);
      out.add(
          letter, name, name, stack, layer_of(c, by, stack == "decoder", l == 0 ? "" : table), l);
    }
  };
  const auto last_dropout = c.last_dropout ? c.hidden_dropout : 0;
  const deviations by(c, 1);
  auto embedding = embedding_of(c, c.is_relative() ? 0 : c.positions);
  embedding.init_std = by.table;
  embedding.tokens = "encoder_tokens";
  out.add('E', "embedding", "embedding", "encoder", embedding);
  add_layers('e', "encoder", c.encoder_layers);
  out.add('n',
          "encoder",
          "encoder",
          "encoder",
          stream_norm{{"final_layernorm", norm_of(c)}, c.hidden, last_dropout});
  embedding.tokens = "tokens";
  embedding.tied_to = "embedding";
  out.add('D', "decoder_embedding", "decoder_embedding", "decoder", embedding);
  add_layers('t', "decoder", c.decoder_layers);
  out.add('L',
          "head",
          "",
          "decoder",
          head_spec{.norm = {"decoder.final_layernorm", norm_of(c)},
                    .hidden = c.hidden,
                    .vocabulary = c.vocabulary,
                    .padded_vocabulary = c.padded_vocabulary,
                    .tied_to = c.tied_embeddings ? "embedding.word_embeddings.weight" : "",
                    .bias = c.head_bias,
                    .dropout = last_dropout,
                    .scale = c.head_scaled ? 1 / std::sqrt(double(c.hidden)) : 1.0,
                    .init_std = by.table});
  return out;
}

}  // namespace troupe::runtime
