// The GPT family of decoders. Radford et al.: "Language Models are Unsupervised Multitask
// Learners", 2019. gpt_config also covers Llama (Touvron et al., 2023), Qwen, Mistral and similar
// models.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/extension.hpp"
#include "runtime/model/model_spec.hpp"

namespace troupe::runtime {

/// Describes the model of a configuration. Parameter names are Megatron-core's. Throws input_error
/// for an extension without a name, or with feed-forward layers in place of experts.
model_spec gpt_spec(const gpt_config& config, const extension& own = {});

const model_family& gpt_family();
/// The letters of its units: those of gpt_spec, for any number of layers.
unit_letters gpt_letters(std::int64_t layers);

rotary_spec rotary_of(const gpt_config& config);

}  // namespace troupe::runtime
