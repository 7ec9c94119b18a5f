// An append-only file that the next process can continue after a kill, and a file that several
// processes write at places of their own.

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

/// A file whose parts have fixed places. Several processes may write different parts, in any order;
/// bytes that no process has written are 0. Without a buffer: written bytes outlive the process,
/// but may be lost with the power. Failures throw io_error with the path and advice.
class placed_file {
 public:
  /// Opens or creates the file.
  explicit placed_file(std::filesystem::path path);
  placed_file(const placed_file&) = delete;
  placed_file& operator=(const placed_file&) = delete;
  ~placed_file();

  /// The first `size` bytes; fewer if the file is shorter.
  std::string beginning(std::size_t size) const;
  void write(std::uint64_t at, const void* data, std::size_t size);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Renames a durable file and makes the new name durable. Throws io_error.
void rename_part(const std::filesystem::path& from, const std::filesystem::path& to);

/// Does nothing if the file does not exist. Throws io_error.
void remove_file(const std::filesystem::path& path);

/// The parent folder; "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace troupe::runtime
