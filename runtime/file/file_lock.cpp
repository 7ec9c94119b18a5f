#include "runtime/file/file_lock.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <fcntl.h>
#include <sstream>
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

std::string name_of_this_host() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name) == 0 ? name : "";
}

struct lock_signature {
  std::string pid, host;  ///< empty if unknown
};

lock_signature read_signature(int descriptor) {
  char text[HOST_NAME_MAX + 32] = {};
  const auto size = ::pread(descriptor, text, sizeof text, 0);
  std::istringstream lines(std::string(text, size > 0 ? std::size_t(size) : 0));
  lock_signature out;
  std::getline(lines, out.pid);
  std::getline(lines, out.host);
  if (out.pid.find_first_not_of("0123456789") != std::string::npos)
    out = {};
  return out;
}

/// This process counts as dead: it may hold a deleted lock file of the same name.
bool is_dead(pid_t pid) {
  return pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH);
}

/// Writes this process's pid and host into a lock that it holds. Returns the pid of the previous
/// holder if that was a process of this host and is dead.
std::optional<pid_t> sign_lock(int descriptor) {
  const auto before = read_signature(descriptor);
  const auto host = name_of_this_host();
  const auto text = fmt::format("{}\n{}\n", ::getpid(), host);
  if (::pwrite(descriptor, text.data(), text.size(), 0) == ssize_t(text.size()))
    static_cast<void>(::ftruncate(descriptor, off_t(text.size())) == 0);
  pid_t dead = 0;
  const auto* const end = before.pid.data() + before.pid.size();
  const auto [rest, failure] = std::from_chars(before.pid.data(), end, dead);
  if (host.empty() || before.host != host || failure != std::errc{} || rest != end
      || !is_dead(dead))
    return std::nullopt;
  return dead;
}

}  // namespace

std::string holder_of(int descriptor) {
  const auto by = read_signature(descriptor);
  if (by.pid.empty())
    return "another process";
  const bool is_here = by.host.empty() || by.host == name_of_this_host();
  return "process " + by.pid + (is_here ? "" : " on " + by.host);
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
  auto plain = fs::weakly_canonical(output, failure);  // canonical: one lock per file, by any path
  if (failure)
    return;
  if (!plain.has_filename())  // "folder/"
    plain = plain.parent_path();
  path_ = plain.parent_path() / ("." + plain.filename().string() + ".lock");
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0)
      return;
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const bool held = errno == EWOULDBLOCK;
      const auto holder = holder_of(descriptor_);
      ::close(std::exchange(descriptor_, -1));
      if (!held)
        return;  // this file system does not support locks
      throw input_error(
          "cannot {} '{}': {} is writing there; end it, or choose another name for this run",
          what,
          output.string(),
          holder);
    }
    if (is_still_there(descriptor_, path_))
      break;  // otherwise the previous holder removed it between open and flock
    ::close(std::exchange(descriptor_, -1));
  }
  dead_ = sign_lock(descriptor_);
  remove_parts(plain);
}

file_lock::file_lock(file_lock&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      dead_(other.dead_) {}

file_lock::~file_lock() {
  if (descriptor_ < 0)
    return;
  if (is_still_there(descriptor_, path_))  // another process's lock if its folder was removed
    ::unlink(path_.c_str());  // unlink before releasing it, so that only our own file is removed
  ::close(descriptor_);
}

void file_lock::remove_parts(const fs::path& output) const {
  if (descriptor_ >= 0)
    remove_parts_of(output, dead_);
}

void file_lock::remove_part_folders(const fs::path& output) const {
  if (descriptor_ >= 0)
    remove_part_folders_of(output, dead_);
}

}  // namespace troupe::runtime
