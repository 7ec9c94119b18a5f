// The order of training samples: which tokens make up sample i. Megatron's GPTDataset, the same
// arrays for the same seed (docs/formats/gpt_index_cache.md has the formulas).
//
// The sequences of a split are shuffled, once per epoch's worth, and laid end to end; samples of S
// tokens plus one are cut from that stream without regard to documents, neighbours sharing one
// token; then the samples are shuffled. If the last epoch is used by less than 80 %, it is kept out
// of both shuffles, so that its sequences are not seen before the others were.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/index_array.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/token_source.hpp"

#include <cstdint>
#include <optional>

namespace troupe::runtime {

struct gpt_index_request {
  sequence_range range;                       ///< of the token source
  std::int64_t sequence_length = 0;           ///< S, at least 1
  std::optional<std::uint64_t> samples = {};  ///< at least so many; none: as many as one epoch has
  std::uint32_t seed = 1234;
  bool drop_last_partial = true;  ///< false: the last sample may be short (validation only)
};

/// What follows from a request and the number of tokens in its range, before any array is made.
struct gpt_index_plan {
  std::int64_t tokens_per_epoch = 0;
  std::int64_t epochs = 1;
  std::int64_t samples = 0;             ///< that the index will have
  std::int64_t samples_sans_final = 0;  ///< those of all epochs but a separate last one
  bool separate_final_epoch = false;

  index_shape documents(const gpt_index_request& request) const;  ///< (epochs * range.size())
  index_shape bounds(const gpt_index_request& request) const;     ///< (samples + 1, 2)
  index_shape order() const;                                      ///< (samples)
};

/// Throws input_error when the range has no tokens or the request is beyond 2^62 tokens.
gpt_index_plan plan_gpt_index(const token_source& source, const gpt_index_request& request);

struct gpt_index {
  index_array documents;  ///< sequences of the source, in the order of the stream
  index_array bounds;  ///< sample j spans [bounds[j], bounds[j+1]]: (position in documents, token)
  index_array order;   ///< the j-th of all samples that is seen as number i
};

/// A pure function of its arguments; throws `cancelled` when `stop` is.
gpt_index build_gpt_index(const token_source& source,
                          const gpt_index_request& request,
                          const gpt_index_plan& plan,
                          const cancel_token& stop = {});

}  // namespace troupe::runtime
