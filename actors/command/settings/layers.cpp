#include "actors/command/settings/settings.hpp"
#include "runtime/family/gpt/gpt_asked.hpp"

#include <algorithm>

namespace troupe::command::settings {
namespace {

/// Reads Megatron-LM's tuple: two numbers, with or without parentheses.
std::int64_t window_from(const std::string& flag, const std::string& word) {
  auto inner = word;
  std::erase_if(inner, [](char c) { return c == '(' || c == ')' || c == ' '; });
  const auto comma = std::min(inner.find(','), inner.size());
  const auto right = inner.substr(std::min(comma + 1, inner.size()));
  if (right != "0")
    throw usage_error(
        "cannot read {} '{}': give LEFT,0: how many earlier tokens each token sees, and no later "
        "ones",
        flag,
        word);
  return parse_whole(flag, inner.substr(0, comma), {.least = -1});
}

}  // namespace

void declare_function(command_line& line, training_flags& to) {
  using runtime::activation_kind;
  auto& asked = std::any_cast<runtime::gpt_asked&>(to.model);
  auto& m = asked.config;
  const auto set = [](auto& member, auto value) { return [&member, value] { member = value; }; };
  line.group("Model: its layers");
  line.value(
      {.name = "--position-embedding-type",
       .field = "model.position",
       .type = "TYPE",
       .default_value = "learned_absolute",
       .help
       = "Position embedding: learned_absolute, rope (rotary), yarn (rotary, stretched) or none.",
       .megatron = "learned_absolute, rope, yarn and none; mrope and relative are refused",
       .resume = at_resume::refused},
      one_of(asked.position, {"learned_absolute", "rope", "yarn", "none"}));
  line.toggle({.name = "--use-rotary-position-embeddings",
               .field = "model.position=rope",
               .help = "Older name of --position-embedding-type rope.",
               .megatron = "",
               .resume = at_resume::refused},
              [&asked] { asked.position = "rope"; });
  line.toggle({.name = "--no-position-embedding",
               .field = "model.position=none",
               .help = "No learned positions. The model has positions only if they are rotary.",
               .megatron = "",
               .resume = at_resume::refused},
              set(asked.no_position, true));
  line.value({.name = "--normalization",
              .field = "model.normalization",
              .type = "TYPE",
              .default_value = "LayerNorm",
              .help = "Kind of norm: LayerNorm or RMSNorm.",
              .megatron = "",
              .resume = at_resume::refused},
             one_of(asked.normalization, {"LayerNorm", "RMSNorm"}));
  line.value({.name = "--norm-epsilon",
              .field = "model.norm_epsilon",
              .type = "X",
              .default_value = "1e-5",
              .help = "Added to the variance in norms.",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(real(m.norm_epsilon, {.least = 0, .above = true})));
  line.toggle({.name = "--apply-layernorm-1p",
               .field = "model.gain_offset",
               .help = "Stores gains of norms minus 1, so that they start at 0.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.gain_offset, 1));
  line.toggle({.name = "--qk-layernorm",
               .field = "model.qk_norm",
               .help = "Normalizes the queries and keys of each head before the rotary embedding.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.qk_norm, true));
  line.value({.name = "--window-size",
              .field = "model.window",
              .type = "LEFT,0",
              .default_value = "-1,0",
              .help = "Window of attention: each token sees itself and the LEFT tokens before it; "
                      "-1: all of them.",
              .megatron = "LEFT,0: attention does not look to the right",
              .resume = at_resume::refused},
             [&m](const std::string& flag, const std::string& word) {
               m.window = window_from(flag, word);
             });
  line.toggle({.name = "--swiglu",
               .field = "model.activation=swiglu",
               .help = "Gated feed-forward layer (SwiGLU) instead of GELU.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.activation, activation_kind::swiglu));
  line.toggle({.name = "--squared-relu",
               .field = "model.activation=squared_relu",
               .help = "Squared ReLU instead of GELU.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.activation, activation_kind::squared_relu));
  line.toggle(
      {.name = "--no-bias-gelu-fusion",
       .field = "model.activation=gelu_erf",
       .help = "Exact GELU (erf). Without it, the tanh formula of Megatron-LM's fused kernel.",
       .megatron = "exact GELU (erf) instead of the tanh formula of the fused kernel",
       .resume = at_resume::refused},
      [&m] {
        if (m.activation == activation_kind::gelu_tanh)  // SwiGLU and squared ReLU take precedence
          m.activation = activation_kind::gelu_erf;
      });
  line.toggle(
      {.name = "--disable-bias-linear",
       .field = "model.linear_bias=false",
       .help = "No biases in linear layers; GELU is then exact, as with --no-bias-gelu-fusion.",
       .megatron = "GELU is then exact, as in Megatron-LM",
       .resume = at_resume::refused},
      set(m.linear_bias, false));
  line.toggle({.name = "--add-qkv-bias",
               .field = "model.qkv_bias",
               .help = "Biases of queries, keys and values, even with --disable-bias-linear.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.qkv_bias, true));
  line.toggle(
      {.name = "--untie-embeddings-and-output-weights",
       .field = "model.tied_embeddings=false",
       .help
       = "Gives the output layer its own weights; without it, it shares those of the embedding.",
       .megatron = "",
       .resume = at_resume::refused},
      set(m.tied_embeddings, false));
  line.value({.name = "--hidden-dropout",
              .field = "model.hidden_dropout",
              .type = "P",
              .default_value = "0.1, with --load-hf 0",
              .help = "Dropout of the residual stream.",
              .megatron = "other numbers for the same seed: see --seed",
              .resume = at_resume::told},
             if_given(real(m.hidden_dropout, {.least = 0, .most = 1, .below = true})));
  line.value({.name = "--attention-dropout",
              .field = "model.attention_dropout",
              .type = "P",
              .default_value = "0.1, with --load-hf 0",
              .help = "Dropout of attention probabilities.",
              .megatron = "other numbers for the same seed: see --seed",
              .resume = at_resume::told},
             if_given(real(m.attention_dropout, {.least = 0, .most = 1, .below = true})));
  line.value({.name = "--init-method-std",
              .field = "model.init_std",
              .type = "X",
              .help = "Standard deviation of initial weights; weights that add to the residual "
                      "stream get X / sqrt(2 layers).",
              .megatron = "same distribution, other numbers: they depend on (seed, name, element), "
                          "not on the layout",
              .resume = at_resume::told},
             real(m.init_std, 0));
}

}  // namespace troupe::command::settings
