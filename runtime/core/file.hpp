// Files: mapped for reading, written durably. Every failure names the path and what the system
// said.

#pragma once

#include "runtime/core/mapping_guard.hpp"

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

/// A file mapped read-only. Movable; unmapped at destruction. An empty file maps to an empty span.
///
/// What the system cannot read (a broken sector, a file that is cut short meanwhile) lies there as
/// zeros: what was read counts once `require_intact` has returned (MAPPED-1).
class mapped_file {
 public:
  mapped_file() = default;
  /// Throws input_error when there is no such file or it is none, and io_error when the system does
  /// not let it be opened (permissions, descriptors, a broken disk).
  explicit mapped_file(const std::filesystem::path& path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  /// Throws input_error, with path and byte, when something that was read before could not be read,
  /// or the file is shorter than it was. Any thread; a system call.
  void require_intact() const;

 private:
  void close();

  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::unique_ptr<mapping_guard> guard_;  ///< null: nothing is mapped
};

/// A file being written, buffered. What was written is durable, and visible under its name, only
/// after `commit`; without it the destructor removes the temporary file beside the target. A link
/// is followed, and stays. What is there and no regular file (a device, a FIFO) is written into,
/// not replaced: then what was written is visible at once and nothing is durable. A FIFO that
/// nobody reads is refused.
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
  std::filesystem::path partial_;  // empty: path_ is a device and written into
  std::string buffer_;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

/// No process that writes is silent for so long.
inline constexpr std::chrono::hours surely_dead{24};

/// Removes the files that killed processes have left of `path`, "<path>.partial-<pid>": that of the
/// process `dead`, and those that nobody has touched for surely_dead, as a pid says nothing of the
/// processes of another host that shares the folder. Folders, links and what cannot be removed
/// stay.
void remove_parts_of(const std::filesystem::path& path, std::optional<pid_t> dead = {});

/// The same of folders, with all that is in them: for names that nobody but the program chooses.
void remove_part_folders_of(const std::filesystem::path& path, std::optional<pid_t> dead = {});

/// Whole small files; reading copies them. Throw input_error and io_error as mapped_file, and
/// io_error (writing).
std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, std::string_view text);

/// Why a file cannot be written there, or a folder made; nothing when it seems that it can. Asks
/// about the nearest folder that exists, and changes nothing.
std::optional<std::string> write_obstacle(const std::filesystem::path& path);

/// Makes the folder and its parents. Throws io_error.
void make_folder(const std::filesystem::path& path);

/// Syncs a folder, so that renames in it are durable. Throws io_error.
void sync_folder(const std::filesystem::path& path);

}  // namespace troupe::runtime
