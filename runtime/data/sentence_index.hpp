// The samples of data sets that were split into sentences: runs of sentences of one document. Gives
// the same array as megatron-core's build_mapping for the same seed.
//
// A document is cut before the sentence after which its tokens reach the target length of the
// sample; its last two sentences stay together. A target length is the maximum, or with the
// probability of short sequences a random shorter one. Documents are left out if they have fewer
// sentences than a sample needs, or, with at least two sentences, one of more than 512 tokens. The
// samples of all epochs are shuffled together. An epoch is never cut.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/index_array.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/split.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::runtime {

struct sentence_index_request {
  sequence_range documents;                   ///< of the data set
  std::int64_t longest = 0;                   ///< maximum target length, at least 2
  std::int64_t least_sentences = 1;           ///< of a sample
  double short_sequences = 0.1;               ///< probability
  std::optional<std::uint64_t> samples = {};  ///< minimum; nullopt: one epoch
  std::uint32_t seed = 1234;
};

/// Rows (first sentence, end, target length) u32. Throws input_error if an epoch has no samples,
/// and `cancelled`.
index_array build_sentence_index(const indexed_dataset& source,
                                 const sentence_index_request& request,
                                 const cancel_token& stop = {});

/// Maps the cached index, as load_or_build_gpt_index does.
index_array load_or_build_sentence_index(const indexed_dataset& source,
                                         const sentence_index_request& request,
                                         data_split part,
                                         const std::filesystem::path& folder,
                                         const cancel_token& stop = {});

}  // namespace troupe::runtime
