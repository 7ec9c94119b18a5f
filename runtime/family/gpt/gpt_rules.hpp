// The rules of latent attention and of experts: a part of validate(gpt_config).

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// Adds a sentence per violated rule, with the nearest valid value. For models that have them, and
/// any sizes.
void validate_latents(const gpt_config& x, std::vector<std::string>& out);
void validate_experts(const gpt_config& x, std::vector<std::string>& out);

}  // namespace troupe::runtime
