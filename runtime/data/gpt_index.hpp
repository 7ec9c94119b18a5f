// The order of training samples: maps sample i to its tokens. Gives the same arrays as Megatron's
// GPTDataset for the same seed (formulas: docs/formats/gpt_index_cache.md).
//
// The sequences of all epochs are shuffled together and concatenated. The stream is cut into
// samples of S + 1 tokens across document borders; neighbours share one token. Then the samples are
// shuffled. If less than 80 % of the last epoch is used, that epoch is shuffled separately, so that
// its sequences come after all others.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/index_array.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/token_source.hpp"

#include <cstdint>
#include <optional>

namespace troupe::runtime {

struct gpt_index_request {
  sequence_range range;                       ///< sequences of the token source
  std::int64_t sequence_length = 0;           ///< S, at least 1
  std::optional<std::uint64_t> samples = {};  ///< minimum; nullopt: one epoch
  std::uint32_t seed = 1234;
  bool drop_last_partial = true;  ///< false: the last sample may be short (validation only)
};

/// The sizes that follow from a request and the number of tokens in its range.
struct gpt_index_plan {
  std::int64_t tokens_per_epoch = 0;
  std::int64_t epochs = 1;
  std::int64_t samples = 0;             ///< of the index
  std::int64_t samples_sans_final = 0;  ///< without a separate last epoch
  bool separate_final_epoch = false;

  index_shape documents(const gpt_index_request& request) const;  ///< (epochs * range.size())
  index_shape bounds(const gpt_index_request& request) const;     ///< (samples + 1, 2)
  index_shape order() const;                                      ///< (samples)
};

/// Throws input_error when the range has no tokens or the request exceeds 2^62 tokens.
gpt_index_plan plan_gpt_index(const token_source& source, const gpt_index_request& request);

struct gpt_index {
  index_array documents;  ///< sequences of the source, in the order of the stream
  index_array bounds;  ///< sample j spans [bounds[j], bounds[j+1]]: (position in documents, token)
  index_array order;   ///< number j of the sample that is read as number i
};

/// A pure function of its arguments. Shows a progress_bar. Throws `cancelled`.
gpt_index build_gpt_index(const token_source& source,
                          const gpt_index_request& request,
                          const gpt_index_plan& plan,
                          const cancel_token& stop = {});

}  // namespace troupe::runtime
