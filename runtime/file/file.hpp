// File access: mapped reads and durable writes. Every error names the path and quotes the system.

#pragma once

#include "runtime/file/mapping_guard.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace troupe::runtime {

/// A file mapped read-only. Movable; the destructor unmaps it. An empty file maps to an empty span.
///
/// Unreadable pages (a broken sector, a file truncated after mapping) read as zeros. Data that was
/// read is valid only if `require_intact` returns afterwards (MAPPED-1).
class mapped_file {
 public:
  mapped_file() = default;
  /// Throws input_error if the path does not name a regular file, and io_error if the system
  /// refuses to open it (permissions, too many descriptors, a broken disk).
  explicit mapped_file(const std::filesystem::path& path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  /// Throws input_error with path and byte offset if an earlier read touched an unreadable page, or
  /// if the file has shrunk. A file that was removed or replaced keeps its mapped bytes. Any thread
  /// may call it; costs one system call.
  void require_intact() const;

 private:
  void close();

  std::filesystem::path path_, absolute_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  dev_t device_ = 0;  ///< with inode_: the mapped file, which no descriptor holds open
  ino_t inode_ = 0;
  std::unique_ptr<mapping_guard> guard_;  ///< null if nothing is mapped
};

/// A buffered writer that replaces a file atomically. The content becomes durable, and visible
/// under its name, at `commit`; without it, the destructor removes the temporary file beside the
/// target. Follows a symbolic link and keeps it. Writes directly into a device or FIFO: the content
/// is visible at once and never durable. Refuses a FIFO without a reader.
class file_writer {
 public:
  /// Opens "<path>.partial-<pid>", or the device. Throws io_error.
  explicit file_writer(std::filesystem::path path);
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;
  ~file_writer();

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  std::size_t size() const { return size_; }  ///< bytes written so far

  /// Flushes, syncs to the device, renames to the target and syncs its folder. Throws io_error.
  void commit();

 private:
  void flush();

  std::filesystem::path path_;
  std::filesystem::path partial_;  // empty if path_ is a device or FIFO
  std::string buffer_;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

/// A file untouched for this long has no living writer.
inline constexpr std::chrono::hours surely_dead{24};

/// Removes temporary files "<path>.partial-<pid>" of killed processes: the one of the process
/// `dead`, and those untouched for surely_dead. Age decides for the rest because a pid says nothing
/// about other hosts that share the folder. Skips folders, links and files that cannot be removed.
void remove_parts_of(const std::filesystem::path& path, std::optional<pid_t> dead = {});

/// Removes all of them. The caller holds the lock that each writer of `path` holds.
void remove_all_parts_of(const std::filesystem::path& path);

/// Like remove_parts_of, for folders and their content. Use it only for names that the program
/// chooses.
void remove_part_folders_of(const std::filesystem::path& path, std::optional<pid_t> dead = {});

/// Read or write a small file as a whole. Throw input_error and io_error as mapped_file does;
/// writing throws io_error.
std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, std::string_view text);

/// The reason why a file or folder cannot be created at `path`; empty if no obstacle is found.
/// Checks the nearest existing folder and changes nothing.
std::optional<std::string> write_obstacle(const std::filesystem::path& path);

/// Creates the folder and its parents. Throws io_error.
void make_folder(const std::filesystem::path& path);

/// Syncs a folder to make renames in it durable. Throws io_error.
void sync_folder(const std::filesystem::path& path);

}  // namespace troupe::runtime
