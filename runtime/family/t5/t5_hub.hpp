// T5s of the Hugging Face Hub: T5ForConditionalGeneration (model_type t5), of version 1.0 (an
// output layer with the scaled table of the embedding) and 1.1 (a gated feed-forward layer, and an
// output layer of its own), with any activation of these.

#pragma once

#include "runtime/family/hub_translation.hpp"

namespace troupe::runtime {

const hub_translation& t5_hub();

}  // namespace troupe::runtime
