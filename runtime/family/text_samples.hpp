// Samples of a decoder of text: Megatron's GPTDataset, with any of its settings; conversations; and
// Megatron's made-up documents.

#pragma once

#include "runtime/family/family_samples.hpp"

namespace troupe::runtime {

const family_samples& text_samples();

}  // namespace troupe::runtime
