// A sequential reader of plain, gzip and Zstandard files: gives the decompressed bytes.

#pragma once

#include "runtime/file/file_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::runtime {

/// Detects the compression by the first bytes of the file, not by its name. Concatenates successive
/// gzip members (RFC 1952) or Zstandard frames (RFC 8878). Memory: 0.3 MB, and the window of
/// Zstandard, at most 128 MB. Single-threaded.
///
/// Throws input_error with the file, the byte and advice for damaged or truncated data, other
/// compressions (xz, bzip2, lz4, zip), Parquet, and a larger window.
class inflating_file {
 public:
  /// Throws like file_reader.
  explicit inflating_file(const std::filesystem::path& path);
  ~inflating_file();

  /// Reads the next bytes of the text, at most `size`. Returns their number; 0 only at the end.
  std::size_t read(char* into, std::size_t size);

  /// Skips bytes of the text; decompresses them if necessary. Throws input_error beyond the end.
  void skip(std::uint64_t bytes);

  bool compressed() const;
  std::uint64_t taken() const;  ///< bytes of the compressed file read so far
  std::uint64_t size() const;   ///< bytes of the compressed file

  struct stream;  ///< a decompressor

 private:
  file_reader file_;
  std::unique_ptr<stream> stream_;  ///< null: not compressed
};

/// The decompressed bytes of a file. Throws like inflating_file.
std::string inflated_text(const std::filesystem::path& path);

/// Removes an extension ".gz" or ".zst".
std::filesystem::path without_compression(const std::filesystem::path& path);

}  // namespace troupe::runtime
