// The settings of a T5 as they are asked for.

#pragma once

#include "runtime/core/bound_setting.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/family/t5/t5_config.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::runtime {

struct t5_asked {
  t5_config config;  ///< settings that were not given have their defaults
  std::string form = "megatron";
  std::optional<std::int64_t> layers;    ///< of each stack, unless the stack's own are given
  std::optional<std::int64_t> sequence;  ///< another name of the encoder's

  static constexpr auto changed_at_resume = at_resume::refused;
  static constexpr auto fields() {
    using x = t5_asked;
    return std::tuple(
        row("config", &x::config).named(""),
        row("form", &x::form)
            .own_flag({.name = "--t5-form",
                       .type = "FORM",
                       .default_value = "megatron",
                       .help
                       = "Settings that are not given: megatron (as Megatron-LM's T5: learned "
                         "positions, LayerNorm, GELU, biases), v1.0 (as the original: relative "
                         "positions, RMSNorm, ReLU, no biases, scores without a scale, a "
                         "scaled tied output layer) or v1.1 (the same with gated GELU and an "
                         "output layer of its own).",
                       .choices = "megatron v1.0 v1.1",
                       .only_given = true}),
        row("layers", &x::layers)
            .flag(common_flags::layers("--num-layers",
                                       "Layers of each stack, unless the next two give them.")),
        row("sequence", &x::sequence)
            .flag(common_flags::tokens("--seq-length", "As --encoder-seq-length.")));
  }
};

/// The functions of model_family.
std::optional<t5_config> resolve(const t5_asked& asked,
                                 const given_settings& given,
                                 std::vector<std::string>& wrong);
t5_config resolve_hub(const t5_config& there,
                      const t5_asked& asked,
                      const given_settings& given,
                      const std::string& hub,
                      std::vector<std::string>& wrong);
void write_back(const t5_config& config, t5_asked& asked, given_settings& given, bool from_hub);

}  // namespace troupe::runtime
