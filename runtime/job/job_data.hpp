// The data sets of a job: checks, describes and opens them. The model's family makes their samples
// (family_samples.hpp).

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/data_settings.hpp"
#include "runtime/data/sample_dataset.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/token_source.hpp"
#include "runtime/job/job.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Appends one sentence for each rule that the data break, except rules about unknown parts. Opens
/// the data sets.
void validate_data(const training_job& job,
                   const unknown_parts& unknown,
                   std::vector<std::string>& wrong);

/// Appends one sentence for each data set that another tokenizer wrote. Three cases pass: a data
/// set without a manifest, a job without a tokenizer, and a tokenizer that only has more added
/// tokens (fingerprint_before_adding; data_text reports it).
void validate_tokenizer_of_data(const training_job& job, std::vector<std::string>& wrong);

/// The part of the data settings that decides bits, as JSON: the contents of data sets, not their
/// paths.
std::string identity_of(const data_settings& data);

/// True if the data of a job are files that settings of its model name.
bool has_own_files(const training_job& job);
/// Digest of these files' contents. Throws input_error.
std::string digest_of_files(const training_job& job);

/// "1200 training samples of 64 tokens: 0.42 epochs of 182857 tokens in 969 documents; ..."
std::string data_text(const training_job& job, std::uint64_t samples);
/// "; 'PREFIX' was written before 4 tokens were added to the tokenizer"
std::string added_tokens_text(const training_job& job);

/// Fill-in-the-middle of the job's samples; null: it is off. Throws input_error.
std::shared_ptr<const fill_in_middle> fim_of(const training_job& job);

struct part_of_data {
  std::int64_t documents = 0;
  sequence_range sequences;
};
/// A part of a data set. Documents have one sequence each, unless the family divides documents of
/// several.
part_of_data part_of(const training_job& job, data_split part, const document_source& data);

/// True if a part has a non-empty document; needs no indices.
bool has_documents(const training_job& job, data_split part);

/// Opens at least `samples` samples of a part. Only a blend without weights may have fewer, with a
/// cyclic sampler. Throws input_error, and `cancelled` soon after `stop` is cancelled.
std::shared_ptr<const sample_dataset> open_samples(const training_job& job,
                                                   data_split part,
                                                   std::uint64_t samples,
                                                   const cancel_token& stop);

}  // namespace troupe::runtime
