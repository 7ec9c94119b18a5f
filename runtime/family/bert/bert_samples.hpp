// Samples of a BERT: one or two sentences with masked tokens, [CLS] A [SEP] B [SEP].
//
//   tokens, positions  (T) i32
//   labels, mask       (T) i32 and f32: the original token and 1 where a token is to be predicted;
//                      0 elsewhere
//   types              (T) i32: 1 from the first token of B to its [SEP]; with types of tokens
//   is_random          (1) i32: 1 if B precedes A in the text; with a binary head
//
// Padding is a document of its own: a cut at the number of real tokens. So attention is never
// causal, and no token sees padding.

#pragma once

#include "runtime/family/bert/bert_config.hpp"
#include "runtime/family/family_samples.hpp"

namespace troupe::runtime {

batch_schema bert_schema(const bert_config& config);

const family_samples& bert_samples();

}  // namespace troupe::runtime
