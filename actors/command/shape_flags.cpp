#include "actors/command/flag_groups.hpp"

#include <algorithm>
#include <limits>

namespace troupe::command {
namespace {

/// Megatron-LM's tuple: two numbers, perhaps in parentheses.
std::int64_t window_from(const std::string& flag, const std::string& word) {
  auto inner = word;
  std::erase_if(inner, [](char c) { return c == '(' || c == ')' || c == ' '; });
  const auto comma = std::min(inner.find(','), inner.size());
  const auto right = inner.substr(std::min(comma + 1, inner.size()));
  if (right != "0")
    throw usage_error(
        "{} '{}': give LEFT,0: how many tokens back are seen, and none that are yet to come",
        flag,
        word);
  return parse_whole(flag, inner.substr(0, comma), -1, std::numeric_limits<std::int32_t>::max());
}

}  // namespace

void declare_shape(command_line& line, training_flags& to) {
  auto& m = to.model;
  line.group("Model: its shape");
  line.value("--num-layers",
             "N",
             "Transformer layers. Needed, as are the next two and --seq-length, unless "
             "--load-hf tells them.",
             whole(m.layers, 1, 10000));
  line.value("--hidden-size", "N", "Channels of the residual stream (C).", whole(m.hidden, 1));
  line.value("--num-attention-heads", "N", "Query heads (H).", whole(m.heads, 1));
  line.value("--ffn-hidden-size",
             "N",
             "Width of the feed-forward layer. Default 4 C; with --swiglu 8/3 C, rounded down to a "
             "multiple of 64.",
             whole(m.ffn, 1));
  line.value("--kv-channels", "N", "Size of a head (D). Default C / H.", whole(m.head_size, 1));
  line.toggle("--group-query-attention",
              "Several query heads share one key and value head; see --num-query-groups.",
              [&m] { m.grouped_queries = true; });
  line.value("--num-query-groups",
             "N",
             "Key and value heads (G), with --group-query-attention. Default 1.",
             whole(m.query_groups, 1));
  line.value("--seq-length", "N", "Tokens of a sample (T).", whole(m.sequence, 1));
  line.value("--max-position-embeddings",
             "N",
             "Rows of the learned position table. Default --seq-length.",
             whole(m.positions, 1));
  line.value("--make-vocab-size-divisible-by",
             "N",
             "The embedding gets zero rows until its size is a multiple of N, because matrix "
             "products like round sizes; they change nothing. Default 128.",
             whole(m.vocabulary_divisor, 1));
  line.value(
      "--load-hf",
      "DIR",
      "Starts from a Hugging Face GPT-2, Llama, Mistral, Qwen 2 or Qwen 3 folder (config.json, "
      "model.safetensors). "
      "The shape comes from there: a flag of this section or the next may repeat it, not change "
      "it; dropout is free.",
      text(m.hub));
}

void declare_function(command_line& line, training_flags& to) {
  auto& m = to.model;
  const auto set = [](auto& flag) { return [&flag] { flag = true; }; };
  line.group("Model: its layers");
  line.value(
      "--position-embedding-type",
      "TYPE",
      "How a token knows its place: learned_absolute (default), rope (rotary), yarn (rotary, "
      "stretched) or none.",
      one_of(m.position, {"learned_absolute", "rope", "yarn", "none"}));
  line.toggle("--use-rotary-position-embeddings",
              "The older name of --position-embedding-type rope.",
              [&m] { m.position = "rope"; });
  line.toggle("--no-position-embedding",
              "No learned positions: none at all, unless they are rotary.",
              set(m.no_position));
  line.value("--normalization",
             "TYPE",
             "LayerNorm (default) or RMSNorm.",
             one_of(m.normalization, {"LayerNorm", "RMSNorm"}));
  line.value("--norm-epsilon", "X", "Added to the variance. Default 1e-5.", real(m.norm_epsilon));
  line.toggle("--apply-layernorm-1p",
              "Gains of norms are stored less one, so that they begin at 0.",
              set(m.gains_less_one));
  line.toggle("--qk-layernorm",
              "Normalises the queries and keys of each head, before they turn.",
              set(m.qk_norm));
  line.value("--window-size",
             "LEFT,0",
             "Attention sees the LEFT tokens before each and itself; -1: all (default).",
             [&m](const std::string& flag, const std::string& word) {
               m.window = window_from(flag, word);
             });
  line.toggle("--swiglu", "Gated feed-forward layer instead of GELU.", set(m.swiglu));
  line.toggle("--squared-relu", "Squared ReLU instead of GELU.", set(m.squared_relu));
  line.toggle("--no-bias-gelu-fusion",
              "Exact GELU, by erf. Without it the tanh formula, as Megatron-LM's fused kernel.",
              set(m.exact_gelu));
  line.toggle("--disable-bias-linear", "No biases in matrix products.", set(m.no_linear_bias));
  line.toggle("--add-qkv-bias",
              "Biases of queries, keys and values, although --disable-bias-linear.",
              set(m.qkv_bias));
  line.toggle("--untie-embeddings-and-output-weights",
              "The output layer has weights of its own, instead of the embedding's.",
              set(m.untied));
  line.value("--hidden-dropout",
             "P",
             "Dropout of the residual stream. Default 0.1, with --load-hf 0.",
             real(m.hidden_dropout));
  line.value("--attention-dropout",
             "P",
             "Dropout of attention probabilities. Default 0.1, with --load-hf 0.",
             real(m.attention_dropout));
  line.value("--init-method-std",
             "X",
             "Deviation of initial weights; those that add to the residual stream get X / sqrt(2 "
             "layers). Default 0.02.",
             real(m.init_std));
}

void declare_rotary(command_line& line, training_flags& to) {
  auto& m = to.model;
  auto& y = m.yarn;
  line.group("Model: rotary positions");
  line.value("--rotary-base", "X", "Base of the wavelengths. Default 10000.", real(m.rotary_base));
  line.value("--rotary-percent",
             "X",
             "Share of a head's channels that turn. Default 1.",
             real(m.rotary_percent));
  line.toggle("--rotary-interleaved",
              "Neighbours turn as pairs, instead of the two halves of a head.",
              [&m] { m.rotary_interleaved = true; });
  line.value("--rotary-seq-len-interpolation-factor",
             "N",
             "Positions are divided by it.",
             whole(m.rotary_interpolation, 1));
  line.toggle("--use-rope-scaling",
              "Stretches long wavelengths as Llama 3 does, from 8192 tokens.",
              [&m] { m.rope_scaling = true; });
  line.value("--rope-scaling-factor",
             "X",
             "How far, with --use-rope-scaling. Default 8.",
             real(m.rope_scaling_factor, 1));
  line.value("--rotary-scaling-factor",
             "X",
             "How far YaRN stretches, with --position-embedding-type yarn. Default 1.",
             real(y.factor, 1));
  line.value("--yarn-original-max-position-embeddings",
             "N",
             "YaRN: the sequence that the wavelengths were made for. Default 4096.",
             whole(y.positions, 1));
  line.value("--yarn-beta-fast",
             "X",
             "YaRN: what turns more often in it stays. Default 32.",
             real(y.fast, 0));
  line.value("--yarn-beta-slow",
             "X",
             "YaRN: what turns less often in it is stretched whole. Default 1.",
             real(y.slow, 0));
  line.toggle("--yarn-correction-range-round-to-int",
              "YaRN: the two bounds are rounded to whole channels (default).",
              [&y] { y.round = true; });
  line.toggle(
      "--no-yarn-correction-range-round-to-int", "YaRN: they are not.", [&y] { y.round = false; });
  line.value("--mscale",
             "X",
             "YaRN: cosine and sine are multiplied by 0.1 X ln(factor) + 1. Default 1.",
             real(y.mscale, 0));
  line.value(
      "--mscale-all-dim", "X", "YaRN: and divided by this. Default 0.", real(y.mscale_all, 0));
}

}  // namespace troupe::command
