#include "runtime/core/file_lock.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

bool is_device_or_pipe(const fs::path& path) {
  struct stat about = {};
  return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
}

}  // namespace

std::string holder_of(int descriptor) {
  char text[32] = {};
  const auto size = ::pread(descriptor, text, sizeof text - 1, 0);
  std::string pid(text, size > 0 ? std::size_t(size) : 0);
  pid.erase(pid.find_last_not_of('\n') + 1);
  const bool known = !pid.empty() && pid.find_first_not_of("0123456789") == std::string::npos;
  return known ? "process " + pid : "another process";
}

bool is_still_there(int descriptor, const fs::path& path) {
  struct stat ours = {}, there = {};
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &there) == 0
         && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

file_lock::file_lock(const fs::path& output, const std::string& what) {
  if (is_device_or_pipe(output))
    return;
  std::error_code failure;
  auto plain
      = fs::weakly_canonical(output, failure);  // one file has one lock, whatever it is called
  if (failure)
    return;
  if (!plain.has_filename())  // "folder/"
    plain = plain.parent_path();
  path_ = plain.parent_path() / ("." + plain.filename().string() + ".lock");
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      return;
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const bool held = errno == EWOULDBLOCK;
      const auto holder = holder_of(descriptor_);
      ::close(std::exchange(descriptor_, -1));
      if (!held)
        return;  // this file system has no locks
      throw input_error(
          "cannot {} '{}': {} is writing there; end it, or choose another name for this run",
          what,
          output.string(),
          holder);
    }
    if (is_still_there(descriptor_, path_))
      break;  // else the one that held it removed it between our opening and our locking
    ::close(std::exchange(descriptor_, -1));
  }
  const auto pid = std::to_string(::getpid()) + "\n";
  // Only to be named to others.
  if (::ftruncate(descriptor_, 0) == 0)
    static_cast<void>(::pwrite(descriptor_, pid.data(), pid.size(), 0) == 0);
  remove_parts_of(plain);
}

file_lock::file_lock(file_lock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

file_lock::~file_lock() {
  if (descriptor_ < 0)
    return;
  ::unlink(path_.c_str());  // while it is still held: nobody else's is removed
  ::close(descriptor_);
}

}  // namespace troupe::runtime
