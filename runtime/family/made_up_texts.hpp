// Made-up samples of texts, which have something to learn. Each is a function of the seed, the part
// and its number. The schema says which tensors they have, and how long they are.

#pragma once

#include "runtime/family/family_samples.hpp"

#include <cstdint>
#include <memory>

namespace troupe::runtime {

/// [CLS] A [SEP] B [SEP] with masked tokens and the order of A and B; without "is_random" one text.
/// Words count in steps, so that they and their order can be predicted. A sample has half to all of
/// T tokens, of which 15 % and at least one are masked as in BERT.
std::shared_ptr<const sample_dataset> made_up_sentences(batch_schema schema,
                                                        std::int64_t vocabulary,
                                                        const samples_request& from);

/// A text for an encoder, and the same in reverse for a decoder, so that it needs cross-attention.
/// The encoder's has half to all of its rows, the decoder's as many as it has room for; the rest is
/// padding.
std::shared_ptr<const sample_dataset> reversed_texts(batch_schema schema,
                                                     std::int64_t vocabulary,
                                                     const samples_request& from);

}  // namespace troupe::runtime
