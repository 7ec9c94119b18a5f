// A file's bytes in their order, inflated where the file is compressed by gzip or Zstandard.

#pragma once

#include "runtime/core/file_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace troupe::runtime {

/// Compression is known by the first bytes of the file, not by its name; several members of gzip
/// (RFC 1952) and frames of Zstandard (RFC 8878), one after the other, are one text. Memory: 0.3
/// MB, and the window of Zstandard, at most 128 MB. One thread uses it.
///
/// What is damaged or cut, compressed by something else (xz, bzip2, lz4, zip), or needs a larger
/// window throws input_error with the file, the byte and what to do.
class inflating_file {
 public:
  /// Throws as file_reader.
  explicit inflating_file(const std::filesystem::path& path);
  ~inflating_file();

  /// The next bytes of the text, at most `size`; 0 at the end alone.
  std::size_t read(char* into, std::size_t size);

  /// Goes to a byte of the text that lies ahead: what is compressed is inflated up to there. Throws
  /// input_error beyond the end.
  void skip(std::uint64_t bytes);

  bool compressed() const;
  std::uint64_t taken() const;  ///< bytes of the file that were read so far
  std::uint64_t size() const;   ///< of the file

  struct stream;  ///< of one way to compress

 private:
  file_reader file_;
  std::unique_ptr<stream> stream_;  ///< null: not compressed
};

/// Without ".gz" or ".zst" at its end.
std::filesystem::path without_compression(const std::filesystem::path& path);

}  // namespace troupe::runtime
