// BERTs of the Hugging Face Hub: post-norm ones (model_type bert) and pre-norm ones
// (megatron-bert), for pre-training or for masked tokens alone.

#pragma once

#include "runtime/family/hub_translation.hpp"

namespace troupe::runtime {

const hub_translation& bert_hub();

}  // namespace troupe::runtime
