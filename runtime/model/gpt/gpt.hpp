// The GPT family: decoders that predict the next token. Radford et al.: "Language Models are
// Unsupervised Multitask Learners", 2019; with the choices of a gpt_config also Llama (Touvron et
// al., 2023), Qwen, Mistral and their like.

#pragma once

#include "runtime/model/extension.hpp"
#include "runtime/model/gpt/gpt_config.hpp"
#include "runtime/model/model_spec.hpp"

namespace troupe::runtime {

/// What a configuration describes. Parameter names are Megatron-core's. Throws input_error when the
/// extension has no name.
model_spec gpt_spec(const gpt_config& config, const extension& own = {});

/// Its rotary positions.
rotary_spec rotary_of(const gpt_config& config);

}  // namespace troupe::runtime
