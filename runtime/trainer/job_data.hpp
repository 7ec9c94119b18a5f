// The data of a job: which data sets there are, checked, described and opened.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/split.hpp"
#include "runtime/trainer/job.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Every rule that the data break, one sentence each, but those about what is unknown; data sets
/// are opened for it.
void validate_data(const training_job& job,
                   const unknown_parts& unknown,
                   std::vector<std::string>& wrong);

/// A data set that was written by another tokenizer than the job's, one sentence each. One without
/// a manifest passes, and so do a job without a tokenizer, and one whose tokenizer has but further
/// added tokens (fingerprint_before_adding): data_text says it.
void validate_tokenizer_of_data(const training_job& job, std::vector<std::string>& wrong);

/// What of the data decides bits, as JSON: data sets by what is in them, not by where they lie.
std::string identity_of(const data_settings& data);

/// Of all data sets that the job reads.
std::vector<std::filesystem::path> prefixes_of(const data_settings& data);

/// "1200 training samples of 64 tokens: 0.42 epochs of 182857 tokens in 969 documents; ..."
std::string data_text(const training_job& job, std::uint64_t samples);

/// Whether a part has a document that is not empty, told before indices are made.
bool has_documents(const training_job& job, data_split part);

/// At least `samples` samples of a part; fewer only of a blend without weights that a cyclic
/// sampler passes over. Throws input_error, and `cancelled` soon after `stop` is.
std::shared_ptr<const sample_dataset> open_samples(const training_job& job,
                                                   data_split part,
                                                   std::uint64_t samples,
                                                   const cancel_token& stop);

}  // namespace troupe::runtime
