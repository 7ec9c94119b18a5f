// Experts in a config.json of the Hub.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/hub_fields.hpp"

namespace troupe::runtime {

/// Reads the experts, the layers that have them, and the latents of DeepSeek's models. `kind`: a
/// model_type that has experts. The rest of `x` is read already.
void read_hub_experts(const hub_fields& in, std::string_view kind, gpt_config& x);
/// True if models of this model_type have experts.
bool has_hub_experts(std::string_view kind);

}  // namespace troupe::runtime
