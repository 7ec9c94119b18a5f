// An append-only file that the next process can continue after a kill.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Buffered appends to a file with a stable name. The destructor keeps the file. One thread uses
/// it. Failures throw io_error with the path and advice.
class part_file {
 public:
  /// Opens or creates the file and truncates it to its first `size` bytes. Throws input_error if it
  /// is shorter.
  part_file(std::filesystem::path path, std::uint64_t size);
  part_file(const part_file&) = delete;
  part_file& operator=(const part_file&) = delete;
  ~part_file();  ///< may lose bytes that were not synced

  void write(const void* data, std::size_t size);
  void sync();                                  ///< makes all written bytes durable
  std::uint64_t size() const { return size_; }  ///< including buffered bytes
  const std::filesystem::path& path() const { return path_; }

 private:
  void flush();

  std::filesystem::path path_;
  std::string buffer_;
  std::uint64_t size_;
  int descriptor_ = -1;
};

/// Renames a durable file and makes the new name durable. Throws io_error.
void rename_part(const std::filesystem::path& from, const std::filesystem::path& to);

/// Does nothing if the file does not exist. Throws io_error.
void remove_file(const std::filesystem::path& path);

/// The parent folder; "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace troupe::runtime
