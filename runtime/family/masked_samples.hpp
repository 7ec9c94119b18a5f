// Samples of masked text, of files with a tokenizer.

#pragma once

#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/masked_dataset.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/family/family_samples.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// The tokenizer of a job that trains on files. Throws input_error if it has none.
std::unique_ptr<const tokenizer> masking_tokenizer(const std::string& description);

/// The options of `from`, of ids below `vocabulary`.
masked_dataset_options masked_options(const samples_request& from,
                                      const masking_settings& masking,
                                      std::int64_t vocabulary,
                                      const tokenizer& by);

/// Throws input_error for a data set of whole texts: each document is one sequence, and the name
/// ends in "_document", as `troupe preprocess` and Megatron-LM name what was not split.
void require_sentences(const std::filesystem::path& prefix, const document_source& data);

/// Opens the files of `from`. `config` has the masking and the vocabulary of a family, and
/// `find` finds the tokens that Dataset needs.
template <class Dataset, class Config, class Find>
std::shared_ptr<const sample_dataset> open_masked(const samples_request& from,
                                                  const Config& config,
                                                  batch_schema schema,
                                                  const Find& find) {
  const auto by = masking_tokenizer(from.tokenizer);
  auto data = std::make_shared<indexed_dataset>(*from.prefix, objects_of(from.data));
  require_sentences(*from.prefix, *data);
  return std::make_shared<Dataset>(std::move(data),
                                   split_for(from.data, from.part),
                                   from.part,
                                   masked_options(from, config.masking, config.vocabulary, *by),
                                   find(*by),
                                   std::move(schema));
}

/// The sentence of `find`, which throws input_error for a tokenizer without the tokens that it
/// needs. Empty if it does not throw, or for made-up data.
std::vector<std::string> validate_masking_tokens(
    const data_settings& data,
    const std::string& tokenizer_description,
    const std::function<void(const tokenizer& by)>& find);

}  // namespace troupe::runtime
