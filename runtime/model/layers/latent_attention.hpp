// Multi-head latent attention: queries, and keys with values, are products of low rank.
//
//   q = up_q norm(down_q x)      or q = W_q x
//   [c, s] = down_kv x           [k, v] of each head = up_kv norm(c)
//
// A query of a head is [q, q'] and its key is [k, s]. The key s is shared by all heads. The rotary
// embedding turns q' and s, no other part. DeepSeek-AI: "DeepSeek-V2", 2024.
//
// The down products and norms are whole on every tensor rank; heads are sharded. Both latents and
// the shared key are one variable at the collective between the two.

#pragma once

#include "runtime/model/layers/norm.hpp"

namespace troupe::runtime {

struct latent_attention_spec {
  std::int64_t hidden = 0;      ///< C
  std::int64_t heads = 0;       ///< H
  std::int64_t q_rank = 0;      ///< of the queries; 0: one product without a norm
  std::int64_t kv_rank = 0;     ///< of keys and values
  std::int64_t own_size = 0;    ///< elements of a head's own part of queries and keys
  std::int64_t rotated = 0;     ///< elements of the shared key, and of the queries' part for it
  std::int64_t value_size = 0;  ///< Dv
  /// Factor of the scores. 0: 1 / sqrt(head_size()). With YaRN it is this times
  /// latent_concentration, and rotary_magnitude is rotary_concentration (rotary.hpp).
  double scale = 0;
  double rotary_magnitude = 1;  ///< of cosine and sine
  bool rotary_interleaved = false;
  norm_options norm;   ///< of both latents
  double dropout = 0;  ///< of the scores
  double init_std = 0, output_init_std = 0;
  /// While decoding, caches the latent with the shared key instead of keys and values of all heads.
  /// Attention then has heads of kv_rank + rotated elements, for prompts too; CUDA takes at most
  /// 256. Tested on one tensor rank: the generator has no others.
  bool caches_latents = false;

  std::int64_t head_size() const { return own_size + rotated; }  ///< D
};

/// Replaces pass::x (.., C) with its output, before the sum over tensor ranks. Breaks LAYER-1
/// unless tensor ranks divide heads.
int add(module_builder& to, const latent_attention_spec& x);
module_traits traits_of(const latent_attention_spec& x);
/// Counts half of the square of scores.
module_flops forward_flops(const latent_attention_spec& x, std::int64_t T);

}  // namespace troupe::runtime
