// Self-attention and cross-attention. Vaswani et al.: "Attention Is All You Need", 2017; grouped
// queries: Ainslie et al., 2023; sliding window: Beltagy et al.: "Longformer", 2020; normalized
// queries and keys: Dehghani et al., 2023.

#pragma once

#include "runtime/model/layers/module_spec.hpp"
#include "runtime/model/layers/score_bias.hpp"

#include <optional>

namespace troupe::runtime {

struct attention_spec {
  std::int64_t hidden = 0;     ///< C
  std::int64_t heads = 0;      ///< H
  std::int64_t groups = 0;     ///< G: key and value heads; divides heads
  std::int64_t head_size = 0;  ///< D
  double scale = 1;            ///< of the scores
  std::int32_t window = -1;    ///< visible keys before the query's position; -1: all
  std::int64_t rotated = 0;    ///< rotated channels of a head; 0: no rotary positions
  bool rotary_interleaved = false;
  bool qkv_bias = false, output_bias = false;
  std::optional<norm_options> head_norm = {};  ///< normalizes each head of queries and keys
  bool norm_rows = false;  ///< head_norm takes all queries of a row together, and all keys
  double dropout = 0;      ///< of the scores
  double init_std = 0, output_init_std = 0;
  double query_init_std = 0;  ///< of queries; 0: init_std
  bool causal = true;  ///< false: while decoding each pass has the whole stream, without a cache
  std::optional<relative_bias_spec> relative_bias = {};
  bool alibi = false;  ///< only without relative_bias

  std::int64_t qkv_width() const { return (heads + 2 * groups) * head_size; }
};

/// Replaces pass::x (.., C) with its output, before the sum over tensor ranks. Returns the bias
/// that must be added to the sum, or no_parameter. Breaks LAYER-1 unless groups divide heads and
/// tensor ranks divide groups. Throws input_error for norm_rows on several tensor ranks.
int add(module_builder& to, const attention_spec& x);
module_traits traits_of(const attention_spec& x);

/// Attends from the module's stream to another stream, which gives keys and values.
struct cross_attention_spec {
  std::string keys;            ///< the other stream
  std::int64_t hidden = 0;     ///< C
  std::int64_t key_width = 0;  ///< C of the other stream
  std::int64_t heads = 0, groups = 0, head_size = 0;
  double scale = 1;                              ///< of the scores
  bool input_bias = false, output_bias = false;  ///< of queries, keys and values; of the output
  double dropout = 0;                            ///< of the scores
  double init_std = 0, output_init_std = 0;
  double query_init_std = 0;  ///< of queries; 0: init_std
  std::int64_t key_rows = 0;  ///< rows of the other stream in training, for FLOPs
};

/// Contract as above, with parameters "linear_q", "linear_kv" ([k v] in each group) and
/// "linear_proj". Padding of either stream is a document (stream_spec::documents). While decoding,
/// the first pass stores keys and values; later passes do not read the other stream.
int add(module_builder& to, const cross_attention_spec& x);
module_traits traits_of(const cross_attention_spec& x);
module_flops forward_flops(const cross_attention_spec& x, std::int64_t T);

/// Adds the segment "core": replaces a fused QKV product in pass::x with the output of its heads.
/// `whole` and `cached` are the options on this rank, without a cache and while decoding, and
/// without those that come from the pass.
void add_core_attention(module_builder& to,
                        const attention_options& whole,
                        const attention_options& cached,
                        double dropout,
                        const score_bias_layer& bias = {});

/// Counts the scores that the mask leaves; without a window half the square, as Megatron-LM does.
module_flops forward_flops(const attention_spec& x, std::int64_t T);

}  // namespace troupe::runtime
