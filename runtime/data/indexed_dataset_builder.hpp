// A streaming writer of indexed data sets: writes tokens to the .bin at once, and keeps only one
// length per sequence and one number per document in memory.

#pragma once

#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/file/file.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace troupe::runtime {

/// Single-threaded. The final files become visible in `finish`; a builder that is destroyed before
/// that removes its temporary files.
class indexed_dataset_builder {
 public:
  /// Ids must be in [0, vocabulary). The vocabulary also selects the token type (token_type_for).
  /// Throws io_error when the .bin cannot be created, input_error when vocabulary < 1.
  indexed_dataset_builder(std::filesystem::path prefix, std::int64_t vocabulary);

  /// Throws input_error for an id outside the vocabulary, io_error when a write fails.
  void add_sequence(std::span<const std::int32_t> tokens);

  /// Ends a document, which has the sequences since the last call. It may be empty.
  void end_document();

  /// Makes both files durable and visible. Every sequence must be in an ended document (BUILDER-1).
  /// Replaces an older data set of that name. A crash here leaves a .bin without an .idx, but never
  /// an .idx of another .bin or manifest.
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
