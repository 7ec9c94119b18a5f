// Multi-head latent attention of a GPT (latent_attention.hpp): a member of gpt_config. JSON has it
// only if attention has latents.

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>

namespace troupe::runtime {

struct latent_config {
  std::int64_t q_rank = 0;      ///< of queries; 0: one product
  std::int64_t kv_rank = 0;     ///< of keys and values; 0: attention has no latents
  std::int64_t own_size = 0;    ///< a head's own part of queries and keys
  std::int64_t rotated = 0;     ///< the rotated part, whose key all heads share
  std::int64_t value_size = 0;  ///< of a head's value
  double norm_epsilon = 0;      ///< of the norms of latents; 0: that of the other norms

  friend bool operator==(const latent_config&, const latent_config&) = default;

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = latent_config;
    return std::tuple(
        row("q_rank", &x::q_rank)
            .flag({.name = "--q-lora-rank",
                   .unit = "channels",
                   .default_value = "one product",
                   .help = "Latent attention: rank of the queries.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("kv_rank", &x::kv_rank)
            .flag({.name = "--kv-lora-rank",
                   .unit = "channels",
                   .default_value = "32",
                   .help = "Latent attention: rank of keys and values.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("own_size", &x::own_size)
            .flag({.name = "--qk-head-dim",
                   .unit = "channels",
                   .default_value = "128",
                   .help = "Latent attention: part of a head's queries and keys without positions.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("rotated", &x::rotated)
            .flag({.name = "--qk-pos-emb-head-dim",
                   .unit = "channels",
                   .default_value = "64",
                   .help = "Latent attention: rotated part of a head's queries, and the key of all "
                           "heads for it.",
                   .range = whole_range{2},
                   .only_given = true}),
        row("value_size", &x::value_size)
            .flag({.name = "--v-head-dim",
                   .unit = "channels",
                   .default_value = "128",
                   .help = "Latent attention: size of a head's value.",
                   .range = whole_range{1},
                   .only_given = true}),
        row("norm_epsilon", &x::norm_epsilon)
            .own_flag({.name = "--latent-norm-epsilon",
                       .default_value = "--norm-epsilon",
                       .help = "Latent attention: added to the variance in norms of latents. "
                               "DeepSeek-V2 and V3 have 1e-6.",
                       .range = real_range{.least = 0, .above = true},
                       .only_given = true}));
  }
};

}  // namespace troupe::runtime
