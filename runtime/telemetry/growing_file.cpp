#include "runtime/telemetry/growing_file.hpp"

#include "runtime/core/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {

growing_file::growing_file(std::string flag, std::filesystem::path path, bool append)
    : flag_(std::move(flag)), path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC);
  do
    descriptor_ = ::open(path_.c_str(), flags, 0666);
  while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0)
    throw io_error("cannot open {} '{}': {}; name another place",
                   flag_,
                   path_.string(),
                   system_message(errno));
}

growing_file::~growing_file() {
  ::close(descriptor_);
}

void growing_file::append(std::string_view record, std::string_view first) {
  struct stat now = {};
  const bool removed = ::fstat(descriptor_, &now) == 0 && S_ISREG(now.st_mode) && now.st_nlink == 0;
  if (removed)
    begin_anew();
  write(removed ? std::string(first) + std::string(record) : std::string(record));
}

void growing_file::begin_anew() {
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    throw io_error("{} '{}' was removed while it was written, and cannot begin anew: {}{}",
                   flag_,
                   path_.string(),
                   system_message(errno),
                   errno == ENOENT ? "; a save folder returns with the next checkpoint"
                                   : "; make room, or remove what stands there");
  ::close(std::exchange(descriptor_, file));
}

void growing_file::write(std::string_view record) {
  struct stat before = {};
  const bool can_shrink = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  while (!record.empty()) {
    const auto written = ::write(descriptor_, record.data(), record.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      const auto reason = system_message(errno);
      // If that fails, too, a reader leaves the torn line out.
      [[maybe_unused]] const auto ignored
          = can_shrink ? ::ftruncate(descriptor_, before.st_size) : 0;
      throw io_error("cannot write {} '{}': {}; make room, or name another place",
                     flag_,
                     path_.string(),
                     reason);
    }
    record.remove_prefix(std::size_t(written));
  }
}

bool growing_file::is_empty() const {
  struct stat what = {};
  return ::fstat(descriptor_, &what) != 0 || what.st_size == 0;
}

}  // namespace troupe::runtime
