// Biases of attention scores by head and distance: T5's table of buckets, and ALiBi.
//
// A bucket is a distance, key position minus query position, or a range of them. With n buckets,
// halved for the two directions if `both_ways`, and e = n / 2, a distance x to the past has
//
//   x < e: bucket x     else: min(n - 1, e + floor(ln(x / e) / ln(most / e) (n - e)))
//
// Distances to the future have the other half of the buckets, or bucket 0.
//
// Raffel et al.: "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
// Transformer", 2020; the formula is that of transformers' T5, rounded as there. Press, Smith,
// Lewis: "Train Short, Test Long: Attention with Linear Biases", 2022.

#pragma once

#include "runtime/model/layers/module_builder.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A parameter "relative_attention_bias.weight" (buckets, heads), sharded by heads.
struct relative_bias_spec {
  std::int64_t buckets = 32;
  std::int64_t most = 128;  ///< distances from here on share a bucket
  bool both_ways = false;   ///< keys after the query have buckets of their own
  double init_std = 0;
  /// The full name of the table of an earlier layer; empty: this layer has the table of its stack.
  std::string tied_to = {};
};

/// The bucket of a distance.
std::int32_t relative_bucket(const relative_bias_spec& x, std::int64_t distance);

/// ALiBi's slopes of all heads. A bias is minus the slope times the absolute distance.
std::vector<float> alibi_slopes(std::int64_t heads);

/// The biases of a module, with its parameter.
struct score_bias_layer {
  std::optional<relative_bias_spec> relative = {};
  bool alibi = false;
  bool causal = true;      ///< no key is after its query
  std::int64_t heads = 0;  ///< of this rank
  std::int64_t all_heads = 0;
  int table = no_parameter;

  /// Biases of queries at positions below `queries` and keys below `keys`; empty without a kind.
  score_bias operator()(tape& tape, std::int64_t queries, std::int64_t keys) const;
};

/// Registers the table, if any. Breaks LAYER-2 unless a table has two buckets or more per direction
/// and no ALiBi beside it.
score_bias_layer add_score_bias(module_builder& to,
                                const std::optional<relative_bias_spec>& relative,
                                bool alibi,
                                std::int64_t heads,
                                bool causal);

}  // namespace troupe::runtime
