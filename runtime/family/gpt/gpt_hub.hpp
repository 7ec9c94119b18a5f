// GPTs of the Hugging Face Hub: GPT-2 (model_type gpt2), Llama (llama), Mistral (mistral), Qwen 2
// (qwen2) and Qwen 3 (qwen3); with experts Mixtral (mixtral), Qwen2-MoE (qwen2_moe), Qwen3-MoE
// (qwen3_moe), OLMoE (olmoe), DeepSeek-V2 (deepseek_v2) and DeepSeek-V3 (deepseek_v3). An import is
// exact: a setting that changes the model's function and has no field in gpt_config is refused.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/hub_translation.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

bool is_hub_type(std::string_view model_type);

/// The functions of hub_translation for a gpt_config.
gpt_config gpt_from_hub(std::string_view config_json, const std::string& where);
std::string gpt_to_hub(const gpt_config& config);

/// Returns the recipes of all parameters in model order: of a Llama if positions are rotary, else
/// of a GPT-2. The source names of a GPT-2 begin with `prefix` ("transformer." or nothing).
std::vector<hub_recipe> gpt_hub_recipes(const gpt_config& config, const std::string& prefix);

/// True for a tensor of the layers that DeepSeek-V3 has behind its last one, which predict further
/// tokens.
bool is_beyond_deepseek(const gpt_config& config, std::string_view source);

const hub_translation& gpt_hub();

}  // namespace troupe::runtime
