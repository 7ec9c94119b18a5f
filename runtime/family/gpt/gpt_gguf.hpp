// GPTs in GGUF files: the architectures gpt2, llama (also Mistral and Mixtral), qwen2, qwen3,
// qwen2moe, qwen3moe and olmoe. Metadata become a config.json of the Hub, and the reverse.

#pragma once

#include "runtime/family/gguf_translation.hpp"
#include "runtime/family/gpt/gpt_config.hpp"

#include <cmath>
#include <numbers>

namespace troupe::runtime {

/// An architecture of GGUF and the model_type of the Hub. The first row of a type or architecture
/// counts, unless the model has experts.
struct gguf_kind {
  std::string_view architecture, type;
  bool experts = false;
  bool normalised = false;  ///< llama.cpp normalises the weights of the chosen experts
};
inline constexpr gguf_kind gguf_kinds[] = {{"gpt2", "gpt2"},
                                           {"llama", "llama"},
                                           {"llama", "mixtral", true, true},
                                           {"qwen2", "qwen2"},
                                           {"qwen3", "qwen3"},
                                           {"qwen2moe", "qwen2_moe", true, false},
                                           {"qwen3moe", "qwen3_moe", true, true},
                                           {"olmoe", "olmoe", true, false}};

/// The stretching of positions of Llama 3.1.
struct llama3_scaling {
  double factor = 8, low = 1, high = 4, positions = 8192;
};

/// The factor by which the rotation of pair `i` of a head is slowed down.
inline double rotary_factor(const llama3_scaling& x,
                            double base,
                            std::int64_t size,
                            std::int64_t i) {
  const auto length = 2 * std::numbers::pi * std::pow(base, 2.0 * double(i) / double(size));
  if (length < x.positions / x.high)
    return 1;
  if (length > x.positions / x.low)
    return x.factor;
  const auto share = (x.positions / length - x.low) / (x.high - x.low);
  return 1 / ((1 - share) / x.factor + share);
}

/// The functions of hub_translation for a gpt_config. `config_json`: that of the model.
std::string gpt_config_of_gguf(const gguf_outline& in);
gguf_plan gguf_of_gpt(const gpt_config& config, std::string_view config_json);

}  // namespace troupe::runtime
