// An unfinished indexed data set on disk, which another process can resume and publish.

#pragma once

#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/file/part_file.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>

namespace troupe::runtime {

/// The maximum per data set: sequence numbers have 32 bits, here and in Megatron-LM.
inline constexpr std::int64_t most_sequences = std::numeric_limits<std::int32_t>::max();

/// The amount of data that was written.
struct dataset_progress {
  std::int64_t documents = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
};

/// Writes three files beside the data set. "<prefix>.bin.partial" becomes the .bin. The .idx is
/// made of ".lengths.partial" (int32, tokens per sequence) and ".documents.partial" (int64, number
/// of sequences up to the end of each document). Memory use is constant. Single-threaded. Throws
/// io_error.
class dataset_parts {
 public:
  /// Resumes at `from` and truncates the files to it. Throws input_error when they are shorter.
  dataset_parts(std::filesystem::path prefix, token_type type, const dataset_progress& from);

  /// Adds whole documents: tokens of the data set's type, the length of each sequence, and the
  /// number of sequences of each document.
  void add(std::span<const char> tokens,
           std::span<const std::int32_t> lengths,
           std::span<const std::int64_t> sequences_of_documents);

  /// Add the three parts separately, in any order; `sync` requires that they agree (BUILDER-1).
  /// Throws input_error for more than `most_sequences`.
  void add_tokens(std::span<const char> tokens);
  void add_lengths(std::span<const std::int32_t> lengths);
  void add_documents(std::span<const std::int64_t> sequences_of_documents);

  void sync();  ///< makes everything durable
  const dataset_progress& progress() const { return progress_; }

 private:
  void require_whole_documents() const;

  std::filesystem::path prefix_;
  token_type type_;
  dataset_progress progress_;
  std::int64_t in_documents_ = 0;  ///< sequences
  part_file bin_, lengths_, documents_;
};

/// Turns the durable parts of `written` into a durable, visible data set: the manifest first, the
/// .idx last. Idempotent: may be called again after an interruption at any point, or after success.
/// Throws input_error when parts are missing or too short and the data set is not there yet.
void publish_dataset(const std::filesystem::path& prefix,
                     token_type type,
                     const dataset_progress& written,
                     const std::optional<dataset_manifest>& made_by);

/// Removes the parts that exist.
void remove_parts(const std::filesystem::path& prefix);

}  // namespace troupe::runtime
