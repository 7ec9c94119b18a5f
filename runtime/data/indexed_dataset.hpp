// A reader for Megatron's indexed data sets: "<prefix>.bin" holds the tokens, "<prefix>.idx" the
// positions of the sequences. Format: docs/formats/indexed_dataset.md.

#pragma once

#include "runtime/data/byte_source.hpp"
#include "runtime/data/token_source.hpp"
#include "runtime/file/file.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// The types of tokens; the values are the codes in the file. 6 and 7 are floating-point types,
/// which tokens cannot have.
enum class token_type : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

std::size_t size_of(token_type type);
std::string_view to_string(token_type type);  ///< numpy's name, such as "uint16"

/// The type to write for a vocabulary: uint16 below 65500 ids, else int32. The limit of 65500 is
/// Megatron's, so that the same corpus gives the same bytes.
token_type token_type_for(std::int64_t vocabulary);

/// "<prefix>.bin" and "<prefix>.idx". The prefix may contain dots.
std::filesystem::path bin_path(const std::filesystem::path& prefix);
std::filesystem::path idx_path(const std::filesystem::path& prefix);

/// An indexed data set. Maps both files; `get` copies tokens, and throws input_error when the files
/// cannot be read or were truncated after they were opened. For objects (s3://BUCKET/KEY), copies
/// the index to a folder and reads tokens by ranges; then `get` throws like object_store.
///
/// The constructor checks the whole index in one pass, so that later reads stay within the files.
/// The check is stricter than Megatron's: the sequences must fill the .bin in order and without
/// gaps, as all known writers store them.
class indexed_dataset final : public document_source {
 public:
  /// Throws input_error when a file is missing or damaged, or when the two do not match.
  explicit indexed_dataset(std::filesystem::path prefix, const object_access& objects = {});

  std::int64_t sequences() const override { return sequences_; }
  std::int32_t length(std::int64_t sequence) const override;
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override;
  void expect(std::int64_t sequence, std::int64_t offset, std::size_t count) const override;
  std::string place(std::int64_t sequence) const override;

  std::int64_t documents() const override { return documents_; }
  std::int64_t document_begin(std::int64_t document) const override;

  /// Throws input_error when earlier reads of lengths or documents failed.
  void require_intact() const { idx_.require_intact(); }

  std::int64_t tokens() const { return tokens_; }
  token_type type() const { return type_; }
  const std::filesystem::path& prefix() const { return prefix_; }

 private:
  void check();
  void check_layout();
  std::int64_t pointer(std::int64_t sequence) const;

  std::filesystem::path prefix_;
  mapped_file idx_;
  std::unique_ptr<const byte_source> bin_;
  token_type type_ = token_type::i32;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace troupe::runtime
