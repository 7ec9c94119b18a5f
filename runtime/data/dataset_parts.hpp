// An indexed data set that is being written and can be gone on with by another process.

#pragma once

#include "runtime/core/part_file.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/indexed_dataset.hpp"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>

namespace troupe::runtime {

/// Of a data set: what counts and numbers them is of 32 bits, here and in Megatron-LM.
inline constexpr std::int64_t most_sequences = std::numeric_limits<std::int32_t>::max();

/// How much of a data set was written.
struct dataset_progress {
  std::int64_t documents = 0;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
};

/// Three files beside the data set: "<prefix>.bin.partial" becomes its .bin; ".lengths.partial"
/// (int32, the tokens of each sequence) and ".documents.partial" (int64, the sequences up to the
/// end of each document) become its .idx. Memory does not depend on how many there are. One thread
/// uses it. Throws io_error.
class dataset_parts {
 public:
  /// Goes on from there, what was written beyond is cut off. Throws input_error where less is
  /// there.
  dataset_parts(std::filesystem::path prefix, token_type type, const dataset_progress& from);

  /// Tokens of the data set's type; the lengths of the sequences that they are; how many sequences
  /// each document has.
  void add(std::span<const char> tokens,
           std::span<const std::int32_t> lengths,
           std::span<const std::int64_t> sequences_of_documents);

  /// The three of them one at a time, in any order; `sync` wants them to agree (BUILDER-1). Throws
  /// input_error for more sequences than a data set may have.
  void add_tokens(std::span<const char> tokens);
  void add_lengths(std::span<const std::int32_t> lengths);
  void add_documents(std::span<const std::int64_t> sequences_of_documents);

  void sync();  ///< what was added is durable
  const dataset_progress& progress() const { return progress_; }

 private:
  void require_whole_documents() const;

  std::filesystem::path prefix_;
  token_type type_;
  dataset_progress progress_;
  std::int64_t in_documents_ = 0;  ///< sequences
  part_file bin_, lengths_, documents_;
};

/// The parts of `written`, all durable, become the data set: durable and visible, the manifest
/// first and the .idx last.
/// May be called again after it was cut short anywhere; nothing more happens once it is done.
/// Throws input_error where parts are missing or too short, and no such data set is there.
void publish_dataset(const std::filesystem::path& prefix,
                     token_type type,
                     const dataset_progress& written,
                     const std::optional<dataset_manifest>& made_by);

/// Removes what there is of the parts.
void remove_parts(const std::filesystem::path& prefix);

}  // namespace troupe::runtime
