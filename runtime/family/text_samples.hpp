// Samples of a decoder of text: Megatron's GPTDataset, with any of its settings; conversations; and
// Megatron's made-up documents.

#pragma once

#include "runtime/family/family_samples.hpp"

namespace troupe::runtime {

const family_samples& text_samples();

/// Samples that the model's family makes up for `data.mock`; null: it has text_samples, which cuts
/// them from documents.
std::shared_ptr<const sample_dataset> made_up_samples(const model_description& model,
                                                      data_split part,
                                                      std::uint64_t samples,
                                                      std::uint64_t seed);

}  // namespace troupe::runtime
