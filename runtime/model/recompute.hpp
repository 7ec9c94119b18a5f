// Activation recomputation settings, as in Megatron-LM.
//
// Chen et al.: "Training Deep Nets with Sublinear Memory Cost", 2016; Korthikanti et al.: "Reducing
// Activation Recomputation in Large Transformer Models", 2022 (selective).

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>

namespace troupe::runtime {

enum class recompute_granularity : std::uint8_t { none, selective, full };

enum class recompute_method : std::uint8_t {
  uniform,  ///< all layers of a chunk, in groups of `layers`
  block,    ///< the first `layers` layers of a chunk, one by one
};

struct recompute_settings {
  recompute_granularity granularity = recompute_granularity::none;
  recompute_method method = recompute_method::uniform;  ///< only for full
  int layers = 1;                                       ///< only for full
  bool core_attention = true;                           ///< only for selective: module core_attn
  bool feed_forward = false;                            ///< only for selective: module mlp

  friend bool operator==(const recompute_settings&, const recompute_settings&) = default;

  static constexpr auto fields() {
    using x = recompute_settings;
    return std::tuple(row("granularity", &x::granularity),
                      row("method", &x::method),
                      row("layers", &x::layers),
                      row("core_attention", &x::core_attention),
                      row("feed_forward", &x::feed_forward));
  }
};

}  // namespace troupe::runtime
