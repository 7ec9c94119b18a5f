// One process at a time for an output (ONE-WRITER).

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>

namespace troupe::runtime {

/// The holder of a lock file, as others may name it: "process 1234". `descriptor` is of that file.
std::string holder_of(int descriptor);

/// Whether the file that is open there is what lies at that path: it may have been removed.
bool is_still_there(int descriptor, const std::filesystem::path& path);

/// Keeps another process from writing the same file or folder: a lock on ".<name>.lock" beside it,
/// which the kernel releases when the process dies, however it dies. Its lines are the pid of who
/// holds it and its host. The file that such a one has left of the output is removed
/// (remove_parts_of): at once where it was of this host, as hosts need not see each other's locks.
/// A device is nobody's; where no lock can be had, as the folder is not there or the file system
/// has none, nobody is kept out, nothing is removed, and writing the output itself will tell why.
class file_lock {
 public:
  /// `what` begins the message: "write `watch.log_file`". Throws input_error that names the other
  /// process.
  file_lock(const std::filesystem::path& output, const std::string& what);
  file_lock(file_lock&& other) noexcept;
  file_lock& operator=(file_lock&&) = delete;
  ~file_lock();  ///< removes the lock file

  /// remove_parts_of a further file that this lock is for, and remove_part_folders_of such a
  /// folder. Nothing where no lock could be had.
  void remove_parts(const std::filesystem::path& output) const;
  void remove_part_folders(const std::filesystem::path& output) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;             ///< -1: no lock could be had
  std::optional<pid_t> dead_ = {};  ///< who held it before, on this host, and did not remove it
};

}  // namespace troupe::runtime
