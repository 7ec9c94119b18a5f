// Samples of a T5: a text for the encoder, and the tokens that the decoder predicts from it.
//
//   encoder_tokens     (encoder_sequence) i32, with encoder_positions 0, 1, ...
//   tokens             (decoder_sequence) i32, input of the decoder, with positions 0, 1, ...
//   labels, mask       (decoder_sequence) i32 and f32
//
// Padding of either text is a document of its own: a cut at the number of real tokens, in
// "encoder_documents" and in "documents". Attention then sees no padding.

#pragma once

#include "runtime/family/family_samples.hpp"
#include "runtime/family/t5/t5_config.hpp"

namespace troupe::runtime {

batch_schema t5_schema(const t5_config& config);

/// Made-up samples, and those of files.
const family_samples& t5_samples();

}  // namespace troupe::runtime
