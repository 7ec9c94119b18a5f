// The configuration of a GPT: everything that determines its parameters and its function.

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/model/layers/rotary.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

class model_family;

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
  bool linear_bias = true;
  bool qkv_bias = false;  ///< biases of queries, keys and values even if linear_bias is off
  bool tied_embeddings = true;

  /// A query sees keys up to this many positions back; -1: all.
  std::int64_t window = -1;

  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;

  double init_std = 0.02;

  friend bool operator==(const gpt_config&, const gpt_config&) = default;

  std::int64_t qkv_width() const { return (heads + 2 * groups) * head_size; }
  std::int64_t fc1_width() const { return ffn * kernels::fan_in(activation); }

  /// In the order of the JSON.
  static constexpr auto fields() {
    using x = gpt_config;
    return std::tuple(row("layers", &x::layers),
                      row("hidden", &x::hidden),
                      row("heads", &x::heads),
                      row("groups", &x::groups),
                      row("head_size", &x::head_size),
                      row("ffn", &x::ffn),
                      row("sequence", &x::sequence),
                      row("positions", &x::positions),
                      row("vocabulary", &x::vocabulary),
                      row("padded_vocabulary", &x::padded_vocabulary),
                      row("position", &x::position),
                      row("rotary_base", &x::rotary_base),
                      row("rotary_percent", &x::rotary_percent),
                      row("rotary_interleaved", &x::rotary_interleaved),
                      row("normalization", &x::normalization),
                      row("norm_epsilon", &x::norm_epsilon),
                      row("activation", &x::activation),
                      row("linear_bias", &x::linear_bias),
                      row("qkv_bias", &x::qkv_bias),
                      row("tied_embeddings", &x::tied_embeddings),
                      row("hidden_dropout", &x::hidden_dropout),
                      row("attention_dropout", &x::attention_dropout),
                      row("init_std", &x::init_std),
                      // The first checkpoint format lacks these; the defaults describe its models.
                      row("qk_norm", &x::qk_norm).later(),
                      row("gain_offset", &x::gain_offset).later(),
                      row("window", &x::window).later(),
                      row("rotary_interpolation", &x::rotary_interpolation).later(),
                      row("scaling", &x::scaling).later(),
                      row("scaling_factor", &x::scaling_factor).later(),
                      row("scaling_positions", &x::scaling_positions).later(),
                      row("llama3_low", &x::llama3_low).later(),
                      row("llama3_high", &x::llama3_high).later(),
                      row("yarn_fast", &x::yarn_fast).later(),
                      row("yarn_slow", &x::yarn_slow).later(),
                      row("yarn_mscale", &x::yarn_mscale).later(),
                      row("yarn_mscale_all", &x::yarn_mscale_all).later(),
                      row("yarn_round", &x::yarn_round).later());
  }
};

const model_family& family_of(const gpt_config& config);

/// Checks the configuration. Returns one sentence per violated rule, which names the setting and
/// the nearest valid value; empty if the configuration is valid.
std::vector<std::string> validate(const gpt_config& config);

/// Convert to and from JSON, with the names of the fields. Throws input_error for a field that is
/// missing, unknown or of a wrong type. Fields that older checkpoints lack are optional.
std::string to_json(const gpt_config& config);
gpt_config gpt_config_from_json(const std::string& text);

/// The parameter_count of gpt_spec (counts.hpp), without building it: checks a configuration
/// against the size of its files.
std::int64_t parameter_count(const gpt_config& config);

}  // namespace troupe::runtime
