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
  // Only for selective. Megatron-LM's core_attn, mlp, moe, moe_act and shared_experts.
  bool core_attention = true;
  bool feed_forward = false;
  bool experts = false;  ///< with the two below
  bool expert_activation = false;
  bool shared_experts = false;

  bool has_module() const {
    return core_attention || feed_forward || experts || expert_activation || shared_experts;
  }

  friend bool operator==(const recompute_settings&, const recompute_settings&) = default;

  static constexpr auto fields() {
    using x = recompute_settings;
    return std::tuple(row("granularity", &x::granularity),
                      row("method", &x::method),
                      row("layers", &x::layers),
                      row("core_attention", &x::core_attention),
                      row("feed_forward", &x::feed_forward),
                      row("experts", &x::experts),
                      row("expert_activation", &x::expert_activation),
                      row("shared_experts", &x::shared_experts));
  }
};

}  // namespace troupe::runtime
