#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace troupe::runtime {
namespace {

/// Checks this early; otherwise the first checkpoint would fail after its steps were computed.
void require_own_tracker(const std::filesystem::path& dir) {
  const auto path = dir / tracker_file;
  std::error_code failure;
  if (const auto is = std::filesystem::status(path, failure); exists(is) && !is_regular_file(is))
    throw input_error(
        "cannot save into '{}': its {}, the name of the newest checkpoint, is not a regular file; "
        "remove it",
        dir.string(),
        tracker_file);
}

}  // namespace

directory_lock::directory_lock(const std::filesystem::path& dir) : path_(dir / lock_file) {
  make_folder(dir);
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw io_error("cannot open '{}' to lock the folder: {}; choose a folder that is writable",
                   path_.string(),
                   system_message(errno));
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK)
        throw input_error(
            "cannot save into '{}': {} is saving there; end it, or choose another "
            "folder for this run",
            dir.string(),
            holder_of(descriptor_));
      throw io_error("cannot lock '{}': {}; choose a folder on a file system with locks",
                     path_.string(),
                     system_message(errno));
    }
    const auto pid = fmt::format("{}\n", ::getpid());
    // Shown in other processes' errors only. A full disk is reported by the first write that needs
    // space.
    if (::ftruncate(descriptor_, 0) == 0)
      static_cast<void>(::pwrite(descriptor_, pid.data(), pid.size(), 0) == 0);
    require_own_tracker(dir);
    clear_remains(dir);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

directory_lock::~directory_lock() {
  ::close(descriptor_);
}

bool directory_lock::is_there() const {
  return is_still_there(descriptor_, path_);
}

}  // namespace troupe::runtime
