// A file read from its front to its end, without mapping it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace troupe::runtime {

/// A regular file, unbuffered, as long as it was when it was opened. One thread uses it.
class file_reader {
 public:
  /// Throws as mapped_file does.
  explicit file_reader(std::filesystem::path path);
  file_reader(const file_reader&) = delete;
  file_reader& operator=(const file_reader&) = delete;
  ~file_reader();

  /// As many bytes as there are, at most `size`; 0 at the end alone. Throws input_error when the
  /// disk cannot read, or the file has become shorter than it was.
  std::size_t read(void* into, std::size_t size);

  /// Throws input_error beyond the end.
  void seek(std::uint64_t at);

  std::uint64_t at() const { return at_; }
  std::uint64_t size() const { return size_; }  ///< when it was opened
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t at_ = 0;
};

}  // namespace troupe::runtime
