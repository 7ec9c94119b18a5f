// Writes an indexed data set as a stream: tokens go to the .bin as they come, only one length per
// sequence and one number per document stay in memory.

#pragma once

#include "runtime/core/file.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/indexed_dataset.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// One thread uses it. Nothing is visible under the final names before `finish`; a builder that is
/// destroyed without it leaves nothing behind.
class indexed_dataset_builder {
 public:
  /// Ids must lie in [0, vocabulary), which also chooses the token type (token_type_for).
  /// Throws io_error when the .bin cannot be created, input_error when vocabulary < 1.
  indexed_dataset_builder(std::filesystem::path prefix, std::int64_t vocabulary);

  /// Throws input_error for an id outside the vocabulary, io_error when the disk refuses.
  void add_sequence(std::span<const std::int32_t> tokens);

  /// The sequences since the last call are one document; none is an empty document.
  void end_document();

  /// Makes both files durable and visible. Every sequence must be in an ended document (BUILDER-1).
  /// An older data set of that name is replaced; a crash in between leaves a .bin without an .idx,
  /// never an .idx that belongs to another .bin or manifest.
  void finish(const std::optional<dataset_manifest>& made_by = {});

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()) - 1; }
  std::int64_t tokens() const { return tokens_; }
  token_type type() const { return type_; }

 private:
  void write_index(file_writer& idx) const;

  std::filesystem::path prefix_;
  std::int64_t vocabulary_;
  token_type type_;
  file_writer bin_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> documents_ = {0};
  std::vector<std::uint16_t> narrow_;  ///< reused by add_sequence
  std::int64_t tokens_ = 0;
};

}  // namespace troupe::runtime
