// One process at a time for an output (ONE-WRITER).

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

/// The holder of a lock file, as others may name it: "process 1234". `descriptor` is of that file.
std::string holder_of(int descriptor);

/// Whether the file that is open there is what lies at that path: it may have been removed.
bool is_still_there(int descriptor, const std::filesystem::path& path);

/// Keeps another process from writing the same file or folder: a lock on ".<name>.lock" beside it,
/// which the kernel releases when the process dies, however it dies. What such a one has left of
/// the output is removed (remove_parts_of). A device is nobody's; where no lock file can be made,
/// nobody is kept out, and writing the output itself will tell why.
class file_lock {
 public:
  /// `what` begins the message: "write `watch.log_file`". Throws input_error that names the other
  /// process.
  file_lock(const std::filesystem::path& output, const std::string& what);
  file_lock(file_lock&& other) noexcept;
  file_lock& operator=(file_lock&&) = delete;
  ~file_lock();  ///< removes the lock file

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace troupe::runtime
