// The rules of latent attention and of experts: a part of validate(gpt_config), and upcycling.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/model_family.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Adds a sentence per violated rule, with the nearest valid value. For models that have them, and
/// any sizes.
void validate_latents(const gpt_config& x, std::vector<std::string>& out);
void validate_experts(const gpt_config& x, std::vector<std::string>& out);

/// See model_family::dense_origin_of. The factor is Megatron-LM's. He et al.: "Upcycling Large
/// Language Models into Mixture of Experts", 2024.
std::optional<dense_origin> dense_origin_of(const gpt_config& x,
                                            std::int64_t granularity,
                                            std::vector<std::string>& wrong);

}  // namespace troupe::runtime
