#include "runtime/family/gpt/gpt_text.hpp"

#include "runtime/core/counted.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

std::string stretch_text(const gpt_config& x) {
  const auto* scaling = x.scaling == rope_scaling::none     ? ""
                        : x.scaling == rope_scaling::llama3 ? ", stretched as Llama 3"
                                                            : ", stretched by YaRN";
  auto out
      = *scaling == '\0'
            ? ""
            : fmt::format("{} {}-fold from {}", scaling, x.scaling_factor, x.scaling_positions);
  if (x.rotary_interpolation != 1)
    out += fmt::format(", divided by {}", x.rotary_interpolation);
  return out;
}

std::string position_text(const gpt_config& x) {
  switch (x.position) {
    case position_embedding::learned_absolute:
      return fmt::format("{} learned positions", x.positions);
    case position_embedding::rope:
      return fmt::format("rotary positions (base {}{})", x.rotary_base, stretch_text(x));
    case position_embedding::none:
      break;
  }
  return "no positions";
}

std::string latents_text(const latent_config& x) {
  const auto queries = x.q_rank > 0 ? fmt::format("queries of rank {}, ", x.q_rank) : "";
  return fmt::format(
      "            latent attention: {}keys and values of rank {}, heads of {} + {} "
      "rotated, values of {}\n",
      queries,
      x.kv_rank,
      x.own_size,
      x.rotated,
      x.value_size);
}

std::string experts_text(const gpt_config& c) {
  const auto& x = c.experts;
  const auto layers = c.expert_layers();
  auto out = fmt::format("            {} of {} experts of {} in {} of {} layers, {}",
                         x.chosen,
                         x.number,
                         x.ffn,
                         std::count(layers.begin(), layers.end(), true),
                         c.layers,
                         x.score);
  if (x.pre_softmax)
    out += " over all";
  if (x.groups > 0)
    out += fmt::format(", from {} of {} groups", x.group_topk, x.groups);
  if (x.shared_ffn > 0)
    out += fmt::format(", shared {}{}", x.shared_ffn, x.shared_gate ? " with a gate" : "");
  if (x.latent > 0)
    out += fmt::format(", of rows of {}", x.latent);
  return out + "\n";
}

std::string activation_text(const gpt_config& x) {
  const auto name = [&] {
    switch (x.activation) {
      case activation_kind::gelu_tanh:
        return "GELU (tanh)";
      case activation_kind::gelu_erf:
        return "GELU (erf)";
      case activation_kind::silu:
        return "SiLU";
      case activation_kind::squared_relu:
        return "squared ReLU";
      case activation_kind::relu:
        return "ReLU";
      case activation_kind::tanh:
        return "tanh";
      case activation_kind::quick_gelu:
        break;
    }
    return "quick GELU";
  }();
  if (!x.gated)
    return name;
  return x.activation == activation_kind::silu ? "SwiGLU" : fmt::format("gated {}", name);
}

}  // namespace

std::string text_of(const gpt_config& x, std::int64_t parameters) {
  const auto activation = activation_text(x);
  std::string out = fmt::format("model       {}, C {}, {} of {} in {}, feed-forward {}, T {}\n",
                                counted(x.layers, "layer"),
                                x.hidden,
                                counted(x.heads, "head"),
                                x.head_size,
                                counted(x.groups, "group"),
                                x.ffn,
                                x.sequence);
  out += fmt::format("            {}, {}, {}, {} biases, {} embeddings, dropout {} / {}\n",
                     position_text(x),
                     x.normalization == normalization_kind::layer ? "LayerNorm" : "RMSNorm",
                     activation,
                     x.linear_bias ? "with"
                     : x.qkv_bias  ? "only QKV"
                                   : "no",
                     x.tied_embeddings ? "tied" : "untied",
                     x.hidden_dropout,
                     x.attention_dropout);
  if (x.qk_norm || x.window >= 0)
    out += fmt::format("            {}{}{}\n",
                       !x.qk_norm       ? ""
                       : x.qk_norm_rows ? "rows of queries and of keys normalised"
                                        : "queries and keys normalised",
                       x.qk_norm && x.window >= 0 ? ", " : "",
                       x.window < 0 ? "" : fmt::format("attention sees {} tokens back", x.window));
  if (x.has_latents())
    out += latents_text(x.latent);
  if (x.has_experts())
    out += experts_text(x);
  const auto idle = parameter_count(x) - active_parameter_count(x);
  return out
         + fmt::format("            vocabulary {} padded to {}; {} parameters{}\n",
                       x.vocabulary,
                       x.padded_vocabulary,
                       parameters,
                       idle > 0 ? fmt::format(", {} active per token", parameters - idle) : "");
}

}  // namespace troupe::runtime
