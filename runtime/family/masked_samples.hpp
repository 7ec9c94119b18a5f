// The data set and the tokenizer that families of masked text need to read samples of files.

#pragma once

#include "runtime/data/masked_dataset.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/family/family_samples.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The tokenizer of a job that trains on files. Throws input_error if it has none.
std::unique_ptr<const tokenizer> masking_tokenizer(const std::string& description);

/// The options of `from`, of ids below `vocabulary`.
masked_dataset_options masked_options(const samples_request& from,
                                      const masking_settings& masking,
                                      std::int64_t vocabulary,
                                      const tokenizer& by);

/// The sentence of `find`, which throws input_error for a tokenizer without the tokens that it
/// needs. Empty if it does not throw, or for made-up data.
std::vector<std::string> validate_masking_tokens(
    const data_settings& data,
    const std::string& tokenizer_description,
    const std::function<void(const tokenizer& by)>& find);

}  // namespace troupe::runtime
