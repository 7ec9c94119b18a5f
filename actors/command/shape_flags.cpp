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
  line.value({.name = "--num-layers",
              .field = "model.layers",
              .type = "N",
              .help = "Transformer layers (required, as are the next two and --seq-length, unless "
                      "--load-hf gives them).",
              .megatron = "",
              .resume = at_resume::refused},
             whole(m.layers, 1, 10000));
  line.value({.name = "--hidden-size",
              .field = "model.hidden",
              .type = "N",
              .help = "Channels of the residual stream (C).",
              .megatron = "",
              .resume = at_resume::refused},
             whole(m.hidden, 1));
  line.value({.name = "--num-attention-heads",
              .field = "model.heads",
              .type = "N",
              .help = "Query heads (H).",
              .megatron = "",
              .resume = at_resume::refused},
             whole(m.heads, 1));
  line.value(
      {.name = "--ffn-hidden-size",
       .field = "model.ffn",
       .type = "N",
       .help
       = "Width of the feed-forward layer. Default 4 C; with --swiglu 8/3 C, rounded down to a "
         "multiple of 64.",
       .megatron = "",
       .resume = at_resume::refused},
      whole(m.ffn, 1));
  line.value({.name = "--kv-channels",
              .field = "model.head_size",
              .type = "N",
              .help = "Size of a head (D). Default C / H.",
              .megatron = "",
              .resume = at_resume::refused},
             whole(m.head_size, 1));
  line.toggle({.name = "--group-query-attention",
               .field = "model.grouped_queries",
               .help = "Several query heads share one key and value head; see --num-query-groups.",
               .megatron = "",
               .resume = at_resume::refused},
              [&m] { m.grouped_queries = true; });
  line.value({.name = "--num-query-groups",
              .field = "model.groups",
              .type = "N",
              .help = "Key and value heads (G), with --group-query-attention. Default 1.",
              .megatron = "refused without --group-query-attention, not ignored",
              .resume = at_resume::refused},
             whole(m.query_groups, 1));
  line.value({.name = "--seq-length",
              .field = "model.sequence",
              .type = "N",
              .help = "Tokens of a sample (T).",
              .megatron = "",
              .resume = at_resume::refused},
             whole(m.sequence, 1));
  line.value({.name = "--max-position-embeddings",
              .field = "model.positions",
              .type = "N",
              .help = "Rows of the learned position table. Default --seq-length.",
              .megatron = "need not be given: the default is --seq-length",
              .resume = at_resume::refused},
             whole(m.positions, 1));
  line.value(
      {.name = "--make-vocab-size-divisible-by",
       .field = "model.vocabulary_divisor",
       .type = "N",
       .help = "The embedding gets zero rows until its size is a multiple of N, because matrix "
               "products like round sizes; they change nothing. Default 128.",
       .megatron = "",
       .resume = at_resume::told},
      whole(m.vocabulary_divisor, 1));
  line.value(
      {.name = "--load-hf",
       .field = "checkpoints.load_hub",
       .type = "DIR",
       .help
       = "Starts from a Hugging Face GPT-2, Llama, Mistral, Qwen 2 or Qwen 3 folder (config.json, "
         "model.safetensors). "
         "The shape comes from there: a flag of this section or the next may repeat it, not change "
         "it; dropout may be changed."},
      text(m.hub));
}

void declare_function(command_line& line, training_flags& to) {
  auto& m = to.model;
  const auto set = [](auto& flag) { return [&flag] { flag = true; }; };
  line.group("Model: its layers");
  line.value(
      {.name = "--position-embedding-type",
       .field = "model.position",
       .type = "TYPE",
       .help = "Position embedding: learned_absolute (default), rope (rotary), yarn (rotary, "
               "stretched) or none.",
       .megatron = "learned_absolute, rope, yarn and none; mrope and relative are refused",
       .resume = at_resume::refused},
      one_of(m.position, {"learned_absolute", "rope", "yarn", "none"}));
  line.toggle({.name = "--use-rotary-position-embeddings",
               .field = "model.position=rope",
               .help = "The older name of --position-embedding-type rope.",
               .megatron = "",
               .resume = at_resume::refused},
              [&m] { m.position = "rope"; });
  line.toggle({.name = "--no-position-embedding",
               .field = "model.position=none",
               .help = "No learned positions: none at all, unless they are rotary.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.no_position));
  line.value({.name = "--normalization",
              .field = "model.normalization",
              .type = "TYPE",
              .help = "LayerNorm (default) or RMSNorm.",
              .megatron = "",
              .resume = at_resume::refused},
             one_of(m.normalization, {"LayerNorm", "RMSNorm"}));
  line.value({.name = "--norm-epsilon",
              .field = "model.norm_epsilon",
              .type = "X",
              .help = "Added to the variance. Default 1e-5.",
              .megatron = "",
              .resume = at_resume::refused},
             real(m.norm_epsilon));
  line.toggle({.name = "--apply-layernorm-1p",
               .field = "model.gain_offset",
               .help = "Gains of norms are stored less one, so that they begin at 0.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.gains_less_one));
  line.toggle({.name = "--qk-layernorm",
               .field = "model.qk_norm",
               .help = "Normalises the queries and keys of each head, before rotary embedding.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.qk_norm));
  line.value({.name = "--window-size",
              .field = "model.window",
              .type = "LEFT,0",
              .help = "Attention sees the LEFT tokens before each and itself; -1: all (default).",
              .megatron = "LEFT,0: nothing is seen to the right",
              .resume = at_resume::refused},
             [&m](const std::string& flag, const std::string& word) {
               m.window = window_from(flag, word);
             });
  line.toggle({.name = "--swiglu",
               .field = "model.activation=swiglu",
               .help = "Gated feed-forward layer instead of GELU.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.swiglu));
  line.toggle({.name = "--squared-relu",
               .field = "model.activation=squared_relu",
               .help = "Squared ReLU instead of GELU.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.squared_relu));
  line.toggle(
      {.name = "--no-bias-gelu-fusion",
       .field = "model.activation=gelu_erf",
       .help = "Exact GELU, by erf. Without it the tanh formula, as Megatron-LM's fused kernel.",
       .megatron = "exact GELU, by erf, in place of the tanh formula of the fused kernel",
       .resume = at_resume::refused},
      set(m.exact_gelu));
  line.toggle(
      {.name = "--disable-bias-linear",
       .field = "model.linear_bias=false",
       .help = "No biases in matrix products; GELU is then exact, as with --no-bias-gelu-fusion.",
       .megatron = "",
       .resume = at_resume::refused},
      set(m.no_linear_bias));
  line.toggle({.name = "--add-qkv-bias",
               .field = "model.qkv_bias",
               .help = "Biases of queries, keys and values, although --disable-bias-linear.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.qkv_bias));
  line.toggle({.name = "--untie-embeddings-and-output-weights",
               .field = "model.tied_embeddings=false",
               .help = "The output layer has weights of its own, instead of the embedding's.",
               .megatron = "",
               .resume = at_resume::refused},
              set(m.untied));
  line.value({.name = "--hidden-dropout",
              .field = "model.hidden_dropout",
              .type = "P",
              .help = "Dropout of the residual stream. Default 0.1, with --load-hf 0.",
              .megatron = "other numbers for the same seed: see --seed",
              .resume = at_resume::told},
             real(m.hidden_dropout));
  line.value({.name = "--attention-dropout",
              .field = "model.attention_dropout",
              .type = "P",
              .help = "Dropout of attention probabilities. Default 0.1, with --load-hf 0.",
              .megatron = "other numbers for the same seed: see --seed",
              .resume = at_resume::told},
             real(m.attention_dropout));
  line.value({.name = "--init-method-std",
              .field = "model.init_std",
              .type = "X",
              .help = "Standard deviation of initial weights; those that add to the residual "
                      "stream get X / sqrt(2 "
                      "layers). Default 0.02.",
              .megatron = "same distribution, other numbers: drawn from (seed, name, element), so "
                          "that the layout does not matter",
              .resume = at_resume::told},
             real(m.init_std));
}

void declare_rotary(command_line& line, training_flags& to) {
  auto& m = to.model;
  auto& y = m.yarn;
  line.group("Model: rotary positions");
  line.value({.name = "--rotary-base",
              .field = "model.rotary_base",
              .type = "X",
              .help = "Base of the wavelengths. Default 10000.",
              .megatron = "",
              .resume = at_resume::refused},
             real(m.rotary_base));
  line.value({.name = "--rotary-percent",
              .field = "model.rotary_percent",
              .type = "X",
              .help = "Fraction of a head's channels that are rotated. Default 1.",
              .megatron = "",
              .resume = at_resume::refused},
             real(m.rotary_percent));
  line.toggle({.name = "--rotary-interleaved",
               .field = "model.rotary_interleaved",
               .help = "Rotates adjacent channels as pairs, instead of the two halves of a head.",
               .megatron = "",
               .resume = at_resume::refused},
              [&m] { m.rotary_interleaved = true; });
  line.value({.name = "--rotary-seq-len-interpolation-factor",
              .field = "model.rotary_interpolation",
              .type = "N",
              .help = "Positions are divided by it.",
              .megatron = "",
              .resume = at_resume::refused},
             whole(m.rotary_interpolation, 1));
  line.toggle({.name = "--use-rope-scaling",
               .field = "model.scaling=llama3",
               .help = "Stretches long wavelengths as Llama 3 does, from 8192 tokens.",
               .megatron = "",
               .resume = at_resume::refused},
              [&m] { m.rope_scaling = true; });
  line.value({.name = "--rope-scaling-factor",
              .field = "model.scaling_factor",
              .type = "X",
              .help = "How far, with --use-rope-scaling. Default 8.",
              .megatron = "refused without --use-rope-scaling, not ignored",
              .resume = at_resume::refused},
             real(m.rope_scaling_factor, 1));
  line.value({.name = "--rotary-scaling-factor",
              .field = "model.yarn_factor",
              .type = "X",
              .help = "How far YaRN stretches, with --position-embedding-type yarn. Default 1.",
              .megatron = "with --position-embedding-type yarn, of any GPT",
              .resume = at_resume::refused},
             real(y.factor, 1));
  line.value({.name = "--yarn-original-max-position-embeddings",
              .field = "model.scaling_positions",
              .type = "N",
              .help = "YaRN: sequence length before the extension. Default 4096.",
              .megatron = "with --position-embedding-type yarn, of any GPT",
              .resume = at_resume::refused},
             whole(y.positions, 1));
  line.value({.name = "--yarn-beta-fast",
              .field = "model.yarn_fast",
              .type = "X",
              .help = "YaRN: wavelengths with more rotations than this in it are kept. Default 32.",
              .megatron = "with --position-embedding-type yarn, of any GPT",
              .resume = at_resume::refused},
             real(y.fast, 0));
  line.value({.name = "--yarn-beta-slow",
              .field = "model.yarn_slow",
              .type = "X",
              .help = "YaRN: those with fewer are interpolated fully. Default 1.",
              .megatron = "with --position-embedding-type yarn, of any GPT",
              .resume = at_resume::refused},
             real(y.slow, 0));
  line.toggle({.name = "--yarn-correction-range-round-to-int",
               .field = "model.yarn_round",
               .help = "YaRN: the two bounds are rounded to whole channels (default).",
               .megatron = "with --position-embedding-type yarn, of any GPT",
               .resume = at_resume::refused},
              [&y] { y.round = true; });
  line.toggle({.name = "--no-yarn-correction-range-round-to-int",
               .field = "model.yarn_round=false",
               .help = "YaRN: they are not.",
               .megatron = "with --position-embedding-type yarn, of any GPT",
               .resume = at_resume::refused},
              [&y] { y.round = false; });
  line.value({.name = "--mscale",
              .field = "model.yarn_mscale",
              .type = "X",
              .help = "YaRN: cosine and sine are multiplied by 0.1 X ln(factor) + 1. Default 1.",
              .megatron = "with --position-embedding-type yarn, of any GPT",
              .resume = at_resume::refused},
             real(y.mscale, 0));
  line.value({.name = "--mscale-all-dim",
              .field = "model.yarn_mscale_all",
              .type = "X",
              .help = "YaRN: and divided by this. Default 0.",
              .megatron = "with --position-embedding-type yarn, of any GPT",
              .resume = at_resume::refused},
             real(y.mscale_all, 0));
}

}  // namespace troupe::command
