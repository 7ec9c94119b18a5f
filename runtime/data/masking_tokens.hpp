// The tokens that samples of masked text need, by their names in a tokenizer.

#pragma once

#include "runtime/data/masked_pairs.hpp"
#include "runtime/data/masked_spans.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// "[CLS]" and "[SEP]" if it has them, and the tokens that continue words. `ids`: ids of the model,
/// with those behind the tokenizer's.
masking_vocabulary masking_vocabulary_of(const tokenizer& by, std::int64_t ids);

/// Throws input_error with the names that the tokenizer lacks.
masked_pair_tokens pair_tokens_of(const tokenizer& by);

/// "[PAD]"; 0 if it has none.
std::int32_t padding_of(const tokenizer& by);

/// Sentinels are "<extra_id_0>" and so on, or the `extra_ids` ids behind the tokenizer's. The
/// decoder's texts begin with `begin`, or if that is negative with "[BOS]", "<s>", "<pad>" or
/// "[CLS]", and end with "[EOS]", "</s>" or "[SEP]": the first name that the tokenizer has. Throws
/// input_error if one of the two is missing, or if `begin` is no id. There may be no sentinels,
/// which only masked spans need.
masked_span_tokens span_tokens_of(const tokenizer& by,
                                  std::int64_t extra_ids,
                                  std::int64_t begin = -1);

}  // namespace troupe::runtime
