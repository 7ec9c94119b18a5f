// The settings of a GPT as they are asked for. `resolve` (gpt_resolve.hpp) makes a gpt_config of
// them.

#pragma once

#include "runtime/core/bound_setting.hpp"
#include "runtime/family/gpt/gpt_config.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::runtime {

struct gpt_asked {
  gpt_config config;                    ///< settings that were not given have their defaults
  bool grouped_queries = false;         ///< G is smaller than H; without groups it is 1
  std::optional<std::string> position;  ///< replaces the configuration's, as the others below
  bool no_position = false;
  std::optional<double> llama3_factor, yarn_factor;
  std::optional<std::string> normalization;
  bool latent_attention = false;  ///< without it, settings of latents are not allowed
  std::string router_type;        ///< empty, or the only type that routers have

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = gpt_asked;
    return std::tuple(
        row("config", &x::config).named(""),
        row("grouped_queries", &x::grouped_queries)
            .flag({.name = "--group-query-attention",
                   .help = "Lets several query heads share one key and value head; see "
                           "--num-query-groups."}),
        row("position", &x::position)
            .flag({.name = "--position-embedding-type",
                   .type = "TYPE",
                   .default_value = "learned_absolute",
                   .help = "Position embedding: learned_absolute, rope (rotary), yarn (rotary, "
                           "stretched) or none.",
                   .megatron
                   = "learned_absolute, rope, yarn and none; mrope and relative are refused",
                   .choices = "learned_absolute rope yarn none"})
            .flag({.name = "--use-rotary-position-embeddings",
                   .help = "Older name of --position-embedding-type rope.",
                   .value = "rope"}),
        row("no_position", &x::no_position)
            .named("position=none")
            .flag(
                {.name = "--no-position-embedding",
                 .help = "No learned positions. The model has positions only if they are rotary."}),
        row("llama3_factor", &x::llama3_factor)
            .named("scaling_factor")
            .flag({.name = "--rope-scaling-factor",
                   .default_value = "8",
                   .help = "Stretch factor, with --use-rope-scaling.",
                   .megatron = "refused without --use-rope-scaling, not ignored",
                   .range = real_range{1}}),
        row("yarn_factor", &x::yarn_factor)
            .flag({.name = "--rotary-scaling-factor",
                   .default_value = "1",
                   .help = "Stretch factor of YaRN, with --position-embedding-type yarn.",
                   .megatron = "with --position-embedding-type yarn, for any GPT",
                   .range = real_range{1}}),
        row("normalization", &x::normalization).flag(common_flags::normalization("LayerNorm")),
        row("latent_attention", &x::latent_attention)
            .flag(
                {.name = "--multi-latent-attention",
                 .help = "Attention with queries, keys and values of low rank, as in DeepSeek-V3.",
                 .megatron = "with --qk-layernorm; YaRN by --position-embedding-type yarn"}),
        row("router_type", &x::router_type)
            .named("experts.type")
            .flag({.name = "--moe-router-dtype",
                   .type = "TYPE",
                   .default_value = "fp32",
                   .help = "Type of the router's product and scores: fp32.",
                   .megatron = "fp32 also without the flag; fp64 is refused",
                   .choices = "fp32",
                   .resume = at_resume::free}));
  }
};

/// The flags of its rows. `to` outlives them.
std::vector<bound_setting> bind(gpt_asked& to);

}  // namespace troupe::runtime
