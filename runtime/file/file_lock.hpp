// Advisory lock: one writing process per output (ONE-WRITER).

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>

namespace troupe::runtime {

/// Names the holder of the lock file open at `descriptor`, for messages: "process 1234".
std::string holder_of(int descriptor);

/// True if `path` still names the file that is open at `descriptor`.
bool is_still_there(int descriptor, const std::filesystem::path& path);

/// Prevents other processes from writing the same file or folder. Locks ".<name>.lock" beside it;
/// the kernel releases the lock when the process ends, however it ends. The lock file contains the
/// holder's pid and host.
///
/// Removes the output's temporary files of a dead holder (remove_parts_of): at once if it ran on
/// this host, by age otherwise, because hosts may not see each other's locks. Devices are not
/// locked. Without a lock (the folder is missing, or the file system has no locks) it excludes no
/// process and removes nothing; writing the output then reports the cause.
class file_lock {
 public:
  /// `what` begins the error message, for example "write `watch.log_file`". Throws input_error that
  /// names the other process.
  file_lock(const std::filesystem::path& output, const std::string& what);
  file_lock(file_lock&& other) noexcept;
  file_lock& operator=(file_lock&&) = delete;
  ~file_lock();  ///< removes the lock file

  /// Apply remove_parts_of or remove_part_folders_of to another output that this lock covers. Do
  /// nothing without a lock.
  void remove_parts(const std::filesystem::path& output) const;
  void remove_part_folders(const std::filesystem::path& output) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;             ///< -1 without a lock
  std::optional<pid_t> dead_ = {};  ///< previous holder on this host that left its lock file
};

}  // namespace troupe::runtime
