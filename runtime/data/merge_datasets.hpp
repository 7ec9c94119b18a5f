// Concatenates indexed data sets into one; writes the same bytes as Megatron-LM's
// tools/merge_datasets.py.

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
  /// Prefixes or folders. A folder means all data sets in it, sorted by name. A data set may occur
  /// more than once.
  std::vector<std::filesystem::path> inputs = {};
  std::filesystem::path output_prefix = {};
  cancel_token stop = {};  ///< checked per megabyte
};

struct merge_result {
  std::int64_t datasets = 0, documents = 0, sequences = 0, tokens = 0;
  std::uint64_t bytes = 0;  ///< of the .bin
  token_type type = token_type::i32;
  bool remembers_tokenizer = false;  ///< a manifest was written: all inputs have the same one
};

/// Expands folders to their data sets. Throws input_error for a folder without data sets, with an
/// incomplete one, or with conversations and their answers, which must not be concatenated.
std::vector<std::filesystem::path> datasets_in(const std::vector<std::filesystem::path>& inputs);

/// Merges the inputs in order. Memory use is constant, except for evictable mapped pages of one
/// .idx. The final files become visible when all of them are durable; a failure removes the parts.
///
/// Throws input_error when there is no input, and for an input that is damaged, is the output, or
/// has another token type or tokenizer (by its manifest) than the first. Throws io_error and
/// `cancelled`.
merge_result merge_datasets(const merge_options& options);

}  // namespace troupe::runtime
