// Sequential, unbuffered reads of a regular file, without a mapping.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace troupe::runtime {

/// Its size is fixed at opening. One thread uses it.
class file_reader {
 public:
  /// Throws as mapped_file does.
  explicit file_reader(std::filesystem::path path);
  file_reader(const file_reader&) = delete;
  file_reader& operator=(const file_reader&) = delete;
  ~file_reader();

  /// Reads up to `size` bytes and returns their number; 0 only at the end. Throws input_error if
  /// the disk fails or the file has shrunk.
  std::size_t read(void* into, std::size_t size);

  /// Throws input_error beyond the end.
  void seek(std::uint64_t at);

  std::uint64_t at() const { return at_; }
  std::uint64_t size() const { return size_; }  ///< size at opening
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t at_ = 0;
};

}  // namespace troupe::runtime
