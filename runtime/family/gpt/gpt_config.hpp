// The configuration of a GPT: everything that determines its parameters and its function.

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/family/common_flags.hpp"
#include "runtime/family/gpt/experts_config.hpp"
#include "runtime/family/gpt/latent_config.hpp"
#include "runtime/model/layers/rotary.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::runtime {

class model_family;
struct enum_name;

// For code that may not name the kernels.
using activation_kind = kernels::activation;
using normalization_kind = kernels::normalization;

enum class position_embedding : std::uint8_t { learned_absolute, rope, none };

struct gpt_config {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;             ///< C
  std::int64_t heads = 0;              ///< H
  std::int64_t groups = 0;             ///< G: key and value heads; divides heads
  std::int64_t head_size = 0;          ///< D: Megatron's kv-channels
  std::int64_t ffn = 0;                ///< hidden size of the feed-forward layer
  std::int64_t sequence = 0;           ///< T
  std::int64_t positions = 0;          ///< rows of the learned position table
  std::int64_t vocabulary = 0;         ///< real tokens
  std::int64_t padded_vocabulary = 0;  ///< V: rows of the embedding; padding is zero and masked

  position_embedding position = position_embedding::learned_absolute;
  double rotary_base = 10000;
  double rotary_percent = 1;
  bool rotary_interleaved = false;
  double rotary_interpolation = 1;  ///< divisor of the positions

  rope_scaling scaling = rope_scaling::none;  ///< see layers/rotary.hpp for the formulas
  double scaling_factor = 1;
  std::int64_t scaling_positions = 8192;   ///< original context length
  double llama3_low = 1, llama3_high = 4;  ///< turns in scaling_positions
  double yarn_fast = 32, yarn_slow = 1;    ///< turns in scaling_positions
  double yarn_mscale = 1, yarn_mscale_all = 0;
  bool yarn_round = true;  ///< rounds the ends of the ramp to whole channels

  kernels::normalization normalization = kernels::normalization::layer;
  double norm_epsilon = 1e-5;
  double gain_offset = 0;  ///< 0 or 1; stored gains are reduced by it
  bool qk_norm = false;    ///< normalizes queries and keys per head
  kernels::activation activation = kernels::activation::gelu_tanh;
  bool gated = false;  ///< JSON calls the gated silu "swiglu"
  bool linear_bias = true;
  bool qkv_bias = false;  ///< biases of queries, keys and values even if linear_bias is off
  bool tied_embeddings = true;

  /// A query sees keys up to this many positions back; -1: all.
  std::int64_t window = -1;

  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;

  double init_std = 0.02;

  bool qk_norm_rows = false;  ///< qk_norm normalizes all queries of a row together, and all keys

  latent_config latent;    ///< head_size is that of queries and keys
  experts_config experts;  ///< in place of feed-forward layers

  friend bool operator==(const gpt_config&, const gpt_config&) = default;

  std::int64_t qkv_width() const { return (heads + 2 * groups) * head_size; }
  std::int64_t fc1_width() const { return ffn * kernels::fan_in(gated); }
  bool has_latents() const { return latent.kv_rank > 0; }
  bool has_experts() const { return experts.number > 0; }
  /// True for each layer with experts; empty without experts.
  std::vector<bool> expert_layers() const {
    return has_experts() ? layers_with_experts(experts.layers, layers) : std::vector<bool>();
  }

  static constexpr auto changed_at_resume = at_resume::refused;
  /// In the order of the JSON.
  static constexpr auto fields() {
    using x = gpt_config;
    return std::tuple(
        row("layers", &x::layers)
            .flag(common_flags::layers("--num-layers",
                                       "Transformer layers. Required, as are the next two and "
                                       "--seq-length, unless --load-hf gives them.")),
        row("hidden", &x::hidden)
            .flag(common_flags::hidden("Channels of the residual stream (C).")),
        row("heads", &x::heads).flag(common_flags::heads("Query heads (H).")),
        row("groups", &x::groups)
            .flag({.name = "--num-query-groups",
                   .unit = "heads",
                   .default_value = "1",
                   .help = "Key and value heads (G), with --group-query-attention.",
                   .megatron = "refused without --group-query-attention, not ignored",
                   .range = whole_range{1},
                   .only_given = true}),
        row("head_size", &x::head_size).flag(common_flags::head_size()),
        row("ffn", &x::ffn)
            .flag(common_flags::ffn("4 C; with --swiglu 8/3 C, rounded down to a multiple of 64")),
        row("sequence", &x::sequence)
            .for_training()
            .flag(common_flags::tokens("--seq-length", "Tokens per sample (T).")),
        row("positions", &x::positions).flag(common_flags::positions()),
        row("vocabulary", &x::vocabulary),
        row("padded_vocabulary", &x::padded_vocabulary).for_training(),
        row("position", &x::position),
        row("rotary_base", &x::rotary_base)
            .flag({.name = "--rotary-base",
                   .default_value = "10000",
                   .help = "Base of the rotary wavelengths.",
                   .range = real_range{.least = 0, .above = true},
                   .only_given = true}),
        row("rotary_percent", &x::rotary_percent)
            .flag({.name = "--rotary-percent",
                   .default_value = "1",
                   .help = "Fraction of a head's channels that are rotated.",
                   .range = real_range{.least = 0, .most = 1, .above = true},
                   .only_given = true}),
        row("rotary_interleaved", &x::rotary_interleaved)
            .flag({.name = "--rotary-interleaved",
                   .help
                   = "Rotates adjacent channels as pairs, instead of the two halves of a head."}),
        row("normalization", &x::normalization),
        row("norm_epsilon", &x::norm_epsilon).flag(common_flags::norm_epsilon("1e-5")),
        row("activation", &x::activation)
            .flag(common_flags::swiglu("Gated feed-forward layer (SwiGLU) instead of GELU.",
                                       int(kernels::activation::silu)))
            .flag(common_flags::squared_relu("Squared ReLU instead of GELU.",
                                             int(kernels::activation::squared_relu)))
            .flag(common_flags::exact_gelu(int(kernels::activation::gelu_erf))),
        row("gated", &x::gated).later().sparse(),
        row("linear_bias", &x::linear_bias)
            .flag(common_flags::disable_bias(
                "No biases in linear layers; GELU is then exact, as with --no-bias-gelu-fusion.",
                "GELU is then exact, as in Megatron-LM")),
        row("qkv_bias", &x::qkv_bias)
            .flag({.name = "--add-qkv-bias",
                   .help = "Biases of queries, keys and values, even with --disable-bias-linear."}),
        row("tied_embeddings", &x::tied_embeddings).flag(common_flags::untied_embeddings()),
        row("hidden_dropout", &x::hidden_dropout)
            .for_training()
            .flag(common_flags::hidden_dropout()),
        row("attention_dropout", &x::attention_dropout)
            .for_training()
            .flag(common_flags::attention_dropout()),
        row("init_std", &x::init_std).for_training().flag(common_flags::init_std()),
        // The first checkpoint format lacks these; the defaults describe its models.
        row("qk_norm", &x::qk_norm)
            .later()
            .flag({.name = "--qk-layernorm",
                   .help
                   = "Normalizes the queries and keys of each head before the rotary embedding."}),
        row("gain_offset", &x::gain_offset)
            .later()
            .flag({.name = "--apply-layernorm-1p",
                   .help = "Stores gains of norms minus 1, so that they start at 0."}),
        row("window", &x::window)
            .later()
            .flag({.name = "--window-size",
                   .type = "LEFT,0",
                   .default_value = "-1,0",
                   .help = "Window of attention: each token sees itself and the LEFT tokens before "
                           "it; -1: all of them.",
                   .megatron = "LEFT,0: attention does not look to the right"}),
        row("rotary_interpolation", &x::rotary_interpolation)
            .later()
            .flag({.name = "--rotary-seq-len-interpolation-factor",
                   .default_value = "1",
                   .help = "Divisor of positions.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("scaling", &x::scaling)
            .later()
            .flag({.name = "--use-rope-scaling",
                   .help
                   = "Stretches long wavelengths as Llama 3 does, beyond its original 8192 tokens.",
                   .value = "llama3",
                   .gives = int(rope_scaling::llama3)}),
        row("scaling_factor", &x::scaling_factor).later(),
        row("scaling_positions", &x::scaling_positions)
            .later()
            .flag({.name = "--yarn-original-max-position-embeddings",
                   .unit = "tokens",
                   .default_value = "4096",
                   .help = "YaRN: sequence length before the extension.",
                   .megatron = "with --position-embedding-type yarn, for any GPT",
                   .range = whole_range{1},
                   .only_given = true}),
        row("llama3_low", &x::llama3_low).later(),
        row("llama3_high", &x::llama3_high).later(),
        row("yarn_fast", &x::yarn_fast)
            .later()
            .flag({.name = "--yarn-beta-fast",
                   .default_value = "32",
                   .help = "YaRN: wavelengths with more rotations than this within the original "
                           "length stay as they are.",
                   .megatron = "with --position-embedding-type yarn, for any GPT",
                   .range = real_range{0},
                   .only_given = true}),
        row("yarn_slow", &x::yarn_slow)
            .later()
            .flag(
                {.name = "--yarn-beta-slow",
                 .default_value = "1",
                 .help = "YaRN: wavelengths with fewer rotations than this are fully interpolated.",
                 .megatron = "with --position-embedding-type yarn, for any GPT",
                 .range = real_range{.least = 0, .above = true},
                 .only_given = true}),
        row("yarn_mscale", &x::yarn_mscale)
            .later()
            .flag({.name = "--mscale",
                   .default_value = "1",
                   .help = "YaRN: multiplies cosine and sine by 0.1 X ln(factor) + 1.",
                   .megatron = "with --position-embedding-type yarn, for any GPT",
                   .range = real_range{0},
                   .only_given = true}),
        row("yarn_mscale_all", &x::yarn_mscale_all)
            .later()
            .flag({.name = "--mscale-all-dim",
                   .default_value = "0",
                   .help = "YaRN: divides cosine and sine by 0.1 X ln(factor) + 1.",
                   .megatron = "with --position-embedding-type yarn, for any GPT",
                   .range = real_range{0},
                   .only_given = true}),
        row("yarn_round", &x::yarn_round)
            .later()
            .flag({.name = "--yarn-correction-range-round-to-int",
                   .default_value = "on",
                   .help = "YaRN: rounds the two bounds to whole channels.",
                   .megatron = "with --position-embedding-type yarn, for any GPT"})
            .flag({.name = "--no-yarn-correction-range-round-to-int",
                   .help = "YaRN: does not round the two bounds.",
                   .megatron = "with --position-embedding-type yarn, for any GPT",
                   .value = "false"}),
        row("latent", &x::latent).later().sparse(),
        row("experts", &x::experts).later().sparse(),
        row("qk_norm_rows", &x::qk_norm_rows)
            .later()
            .sparse()
            .own_flag({.name = "--qk-layernorm-rows",
                       .help = "With --qk-layernorm, normalizes all queries of a token together, "
                               "and all keys, as OLMoE does."}));
  }
};

const model_family& family_of(const gpt_config& config);

/// Names in JSON.
std::span<const enum_name> names_of(position_embedding);
std::span<const enum_name> names_of(rope_scaling);

/// One sentence per violated rule, which names the setting and the nearest valid value.
std::vector<std::string> validate(const gpt_config& config);

/// Convert to and from JSON, with the names of the fields. Throws input_error for a field that is
/// missing, unknown or of a wrong type. Fields that older checkpoints lack are optional.
std::string to_json(const gpt_config& config);
gpt_config gpt_config_from_json(const std::string& text);

/// The parameter_count of gpt_spec (counts.hpp), without building it: checks a configuration
/// against the size of its files.
std::int64_t parameter_count(const gpt_config& config);
/// The parameters that a token uses: all but those of the experts that it does not choose.
std::int64_t active_parameter_count(const gpt_config& config);

}  // namespace troupe::runtime
