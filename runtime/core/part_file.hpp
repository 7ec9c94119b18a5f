// A file in parts: written by a process, gone on with by the next one if that was killed.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Appends to a file under a name that the next process finds, buffered. Nothing is removed unless
/// it is asked for. One thread uses it. What fails throws io_error with path and what to do.
class part_file {
 public:
  /// Opens the file, made where there is none, and cuts it to its first `size` bytes. Throws
  /// input_error when it has fewer.
  part_file(std::filesystem::path path, std::uint64_t size);
  part_file(const part_file&) = delete;
  part_file& operator=(const part_file&) = delete;
  ~part_file();  ///< what `sync` did not see may be lost

  void write(const void* data, std::size_t size);
  void sync();                                  ///< all that was written is durable
  std::uint64_t size() const { return size_; }  ///< with what is buffered
  const std::filesystem::path& path() const { return path_; }

 private:
  void flush();

  std::filesystem::path path_;
  std::string buffer_;
  std::uint64_t size_;
  int descriptor_ = -1;
};

/// Renames a durable file and makes the name durable. Throws io_error.
void rename_part(const std::filesystem::path& from, const std::filesystem::path& to);

/// Nothing where it is not there. Throws io_error.
void remove_file(const std::filesystem::path& path);

/// The folder that a path names a file in: "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& path);

}  // namespace troupe::runtime
