// Several indexed data sets into one: Megatron-LM's tools/merge_datasets.py, the same bytes.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/indexed_dataset.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct merge_options {
  /// Prefixes, and folders, each of which stands for all data sets in it in the order of their
  /// names. A data set may come more than once.
  std::vector<std::filesystem::path> inputs = {};
  std::filesystem::path output_prefix = {};
  cancel_token stop = {};  ///< looked at each megabyte
};

struct merge_result {
  std::int64_t datasets = 0, documents = 0, sequences = 0, tokens = 0;
  std::uint64_t bytes = 0;  ///< of the .bin
  token_type type = token_type::i32;
  bool remembers_tokenizer = false;  ///< whether there is a manifest: all inputs have the same one
};

/// The data sets that the inputs mean. Throws input_error for a folder without any, with half of
/// one, or with conversations and their answers, which are not to be laid end to end.
std::vector<std::filesystem::path> datasets_in(const std::vector<std::filesystem::path>& inputs);

/// Sequences and documents of all inputs, one data set after the other. Memory does not depend on
/// how many there are, beyond mapped pages of one .idx that the system can take back. Nothing is
/// visible under the final names before all of it is durable; what fails leaves nothing.
///
/// Throws input_error for no input, one that is the output, damaged, of another token type or, by
/// its manifest, of another tokenizer than the first; io_error; and `cancelled`.
merge_result merge_datasets(const merge_options& options);

}  // namespace troupe::runtime
