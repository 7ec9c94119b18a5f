// The samples of data sets that were split into sentences: runs of sentences of one document. Gives
// the same array as megatron-core's build_mapping for the same seed.
//
// A sample ends with the sentence that reaches its target length, unless at most one sentence of
// the document would remain. A target length is the maximum, or with the probability of short
// sequences a random shorter one. Documents are left out if they have fewer sentences than a sample
// needs, or at least two sentences and one of more than 512 tokens. The samples of all epochs are
// shuffled together. An epoch is never cut.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/index_array.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/token_source.hpp"

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

/// Rows (first sentence, end, target length): u32, or i64 if the source has more sentences than
/// fit. Shows a progress_bar. Throws input_error if an epoch has no samples or the documents are
/// not sentences, and `cancelled`.
index_array build_sentence_index(const document_source& source,
                                 const sentence_index_request& request,
                                 const cancel_token& stop = {});

/// Maps the cached index, or builds and saves it (index_cache.hpp).
index_array load_or_build_sentence_index(const document_source& source,
                                         const sentence_index_request& request,
                                         data_split part,
                                         const std::filesystem::path& folder,
                                         const cancel_token& stop = {});

}  // namespace troupe::runtime
