// A cache of index arrays on disk: an index is built once per data set, split and seed, not once
// per process. The files are .npy files as in Megatron. Format: docs/formats/gpt_index_cache.md.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/index_array.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/token_source.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct cached_index {
  std::filesystem::path folder;
  std::string kind;  ///< "GPTDataset"
  data_split part = data_split::train;
  /// Everything that the arrays depend on, as JSON: equal descriptions mean equal arrays.
  std::string description;
  struct file {
    const char* name;   ///< "sample_index.npy"
    index_shape shape;  ///< see index_array::open
  };
  std::vector<file> files;
};

/// Maps the cached arrays. Builds and saves them when they are absent, do not match the
/// description, or are damaged in any byte (with a warning in the log). A lock file makes
/// concurrent threads and processes wait for the one that builds. If they cannot be saved, logs a
/// warning and keeps them in memory. Throws `cancelled`, and what `build` throws.
std::vector<index_array> load_or_build(const cached_index& what,
                                       const std::function<std::vector<index_array>()>& build,
                                       const cancel_token& stop);

/// A digest of the lengths of sequences, for descriptions.
std::string digest_of_lengths(const token_source& source, std::int64_t begin, std::int64_t end);

}  // namespace troupe::runtime
