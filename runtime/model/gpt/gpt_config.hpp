// The shape of a GPT: everything that decides its parameters and its function.

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/model/layers/rotary.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

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
  std::int64_t padded_vocabulary = 0;  ///< V: rows of the embedding; the rest is zero and masked

  position_embedding position = position_embedding::learned_absolute;
  double rotary_base = 10000;
  double rotary_percent = 1;
  bool rotary_interleaved = false;
  double rotary_interpolation = 1;  ///< positions are divided by it

  rope_scaling scaling = rope_scaling::none;  ///< layers/rotary.hpp has the formulas
  double scaling_factor = 1;
  std::int64_t scaling_positions = 8192;   ///< the sequence that the wavelengths were made for
  double llama3_low = 1, llama3_high = 4;  ///< turns in scaling_positions
  double yarn_fast = 32, yarn_slow = 1;    ///< turns in scaling_positions
  double yarn_mscale = 1, yarn_mscale_all = 0;
  bool yarn_round = true;  ///< the ends of the ramp are rounded to whole channels

  kernels::normalization normalization = kernels::normalization::layer;
  double norm_epsilon = 1e-5;
  double gain_offset = 0;  ///< gains are stored less this: 1 or 0
  bool qk_norm = false;    ///< queries and keys are normalised, each head by itself
  kernels::activation activation = kernels::activation::gelu_tanh;
  bool linear_bias = true;
  bool qkv_bias = false;  ///< biases of queries, keys and values although linear_bias is off
  bool tied_embeddings = true;

  /// Keys up to this many places before the query's own are seen; -1: all.
  std::int64_t window = -1;

  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;

  double init_std = 0.02;

  friend bool operator==(const gpt_config&, const gpt_config&) = default;

  std::int64_t qkv_width() const { return (heads + 2 * groups) * head_size; }
  std::int64_t fc1_width() const { return ffn * kernels::fan_in(activation); }
};

/// ceil(vocabulary / (divisor * tensor parallel size)) * divisor * tensor parallel size.
std::int64_t padded_vocabulary_size(std::int64_t vocabulary,
                                    std::int64_t divisor,
                                    std::int64_t tensor_parallel);

/// One sentence for each rule that the shape breaks, naming the flag and the nearest value that
/// would do; empty when the model can be built.
std::vector<std::string> validate(const gpt_config& config);

/// As JSON, and back. The names are those of the fields. Throws input_error for a field that is
/// missing, unknown or of another type; fields that older checkpoints lack may be missing.
std::string to_json(const gpt_config& config);
gpt_config gpt_config_from_json(const std::string& text);

/// Parameters of the whole model, tied ones once, padding rows not counted.
std::int64_t parameter_count(const gpt_config& config);

/// Floating-point operations of one training step on `samples` sequences, forward and backward,
/// by Megatron-LM's formula: causal attention counts half, a window what it sees, recomputation
/// nothing.
double training_flops(const gpt_config& config, double samples);

}  // namespace troupe::runtime
