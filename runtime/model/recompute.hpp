// What is dropped after the forward pass and computed again before the backward pass.
//
// Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016; Korthikanti et al.: "Reducing
// Activation Recomputation in Large Transformer Models", 2022 (selective).

#pragma once

#include <cstdint>

namespace troupe::runtime {

enum class recompute_granularity : std::uint8_t { none, selective, full };

enum class recompute_method : std::uint8_t {
  uniform,  ///< every layer of a chunk, `layers` at a time
  block,    ///< one layer at a time, the first `layers` of a chunk
};

struct recompute_settings {
  recompute_granularity granularity = recompute_granularity::none;
  recompute_method method = recompute_method::uniform;  ///< of full
  int layers = 1;                                       ///< of full
  bool core_attention = true;                           ///< of selective: module core_attn
  bool feed_forward = false;                            ///< of selective: module mlp

  friend bool operator==(const recompute_settings&, const recompute_settings&) = default;
};

}  // namespace troupe::runtime
