#include "runtime/family/gpt/gpt_text.hpp"

#include "runtime/core/counted.hpp"

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

}  // namespace

std::string text_of(const gpt_config& x, std::int64_t parameters) {
  const auto activation = x.activation == activation_kind::swiglu         ? "SwiGLU"
                          : x.activation == activation_kind::squared_relu ? "squared ReLU"
                          : x.activation == activation_kind::gelu_tanh    ? "GELU (tanh)"
                                                                          : "GELU (erf)";
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
                       x.qk_norm ? "queries and keys normalised" : "",
                       x.qk_norm && x.window >= 0 ? ", " : "",
                       x.window < 0 ? "" : fmt::format("attention sees {} tokens back", x.window));
  return out
         + fmt::format("            vocabulary {} padded to {}; {} parameters\n",
                       x.vocabulary,
                       x.padded_vocabulary,
                       parameters);
}

}  // namespace troupe::runtime
