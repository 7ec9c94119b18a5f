#include "runtime/telemetry/growing_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

/// Copies a regular file that is open for writing only; Linux can reopen it by its descriptor.
bool has_copied(int from, int to) {
  const int source = ::open(fmt::format("/proc/self/fd/{}", from).c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0)
    return false;
  std::array<char, 65536> bytes;
  bool whole = false;
  for (;;) {
    const auto size = ::read(source, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR)
      continue;
    whole = size == 0;
    if (size <= 0)
      break;
    ssize_t done = 0;
    while (done < size) {
      const auto more = ::write(to, bytes.data() + done, std::size_t(size - done));
      if (more < 0 && errno != EINTR)
        break;
      done += std::max<ssize_t>(more, 0);
    }
    if (done < size)
      break;
  }
  const int failure = errno;
  ::close(source);
  errno = failure;
  return whole;
}

bool is_written(int file, std::string_view text, std::int64_t at) {
  while (!text.empty()) {
    const auto done = ::pwrite(file, text.data(), text.size(), at);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return false;
    text.remove_prefix(std::size_t(done));
    at += done;
  }
  return true;
}

}  // namespace

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

bool growing_file::is_removed() const {
  struct stat now = {};
  return ::fstat(descriptor_, &now) == 0 && S_ISREG(now.st_mode) && now.st_nlink == 0;
}

void growing_file::append(std::string_view record, std::string_view first) {
  if (is_removed()) {
    begin_anew();
    write(std::string(first) + std::string(record));
    begin_ += std::int64_t(first.size());
  } else {
    write(record);
  }
}

bool growing_file::replace_newest(std::string_view record) {
  struct stat now = {};
  const auto size = std::int64_t(record.size());
  if (size < end_ - begin_ || begin_ == end_ || ::fstat(descriptor_, &now) != 0
      || now.st_size != end_ || now.st_nlink == 0)
    return false;
  // The descriptor appends, whatever the offset.
  const int in_place
      = ::open(fmt::format("/proc/self/fd/{}", descriptor_).c_str(), O_WRONLY | O_CLOEXEC);
  // First the part behind the old record, which needs room: the old one stays whole without it.
  const auto old = std::size_t(end_ - begin_);
  bool is_whole = in_place >= 0 && is_written(in_place, record.substr(old), end_);
  const auto reason = system_message(errno);
  if (is_whole)
    is_whole = is_written(in_place, record.substr(0, old), begin_);
  else if (in_place >= 0)
    static_cast<void>(::ftruncate(in_place, end_) == 0);
  if (in_place >= 0)
    ::close(in_place);
  if (!is_whole)
    throw io_error("cannot write {} '{}': {}; make room, or name another place",
                   flag_,
                   path_.string(),
                   reason);
  written_ += begin_ + size - end_;
  end_ = begin_ + size;
  return true;
}

// The data of a deleted file exists as long as it is open.
growing_file::past growing_file::append_to_whole(std::string_view record) {
  struct stat now = {};
  if (::fstat(descriptor_, &now) == 0 && S_ISREG(now.st_mode) && now.st_size < written_) {
    untold_ = past::cut;
    written_ = now.st_size;
  }
  if (is_removed()) {
    restore();
    if (untold_ == past::whole)
      untold_ = past::restored;
  }
  write(record);
  return std::exchange(untold_, past::whole);
}

// Uses another name until the file is complete. So a reader never sees a part, and a killed process
// leaves no partial file under the real name.
void growing_file::restore() {
  const auto part = path_.string() + ".restored";
  ::unlink(part.c_str());
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  const bool stands
      = file >= 0 && has_copied(descriptor_, file) && ::link(part.c_str(), path_.c_str()) == 0;
  const auto reason = system_message(errno);
  if (file >= 0)
    ::unlink(part.c_str());
  if (!stands) {
    if (file >= 0)
      ::close(file);
    throw io_error(
        "{} '{}' was removed while it was written, and cannot be restored: {}; make room, or "
        "restore its folder",
        flag_,
        path_.string(),
        reason);
  }
  ::close(std::exchange(descriptor_, file));
}

void growing_file::begin_anew() {
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    throw io_error("{} '{}' was removed while it was written, and cannot be created again: {}{}",
                   flag_,
                   path_.string(),
                   system_message(errno),
                   errno == ENOENT ? "; a save folder returns with the next checkpoint"
                                   : "; make room, or remove the file at that path");
  ::close(std::exchange(descriptor_, file));
}

void growing_file::write(std::string_view record) {
  struct stat before = {};
  const bool can_shrink = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  const auto size = std::int64_t(record.size());
  while (!record.empty()) {
    const auto written = ::write(descriptor_, record.data(), record.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      const auto reason = system_message(errno);
      // If this fails, too, readers skip the torn line.
      [[maybe_unused]] const auto ignored
          = can_shrink ? ::ftruncate(descriptor_, before.st_size) : 0;
      throw io_error("cannot write {} '{}': {}; make room, or name another place",
                     flag_,
                     path_.string(),
                     reason);
    }
    record.remove_prefix(std::size_t(written));
  }
  written_ += size;
  begin_ = can_shrink ? std::int64_t(before.st_size) : 0;
  end_ = can_shrink ? begin_ + size : 0;
}

bool growing_file::sync_beside() {
  if (syncs_->exchange(true))
    return false;
  const int own = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  const auto end = [own, is_at_it = syncs_] {
    if (own >= 0)
      ::close(own);
    *is_at_it = false;
  };
  if (own < 0) {
    end();
    return false;
  }
  try {
    start_thread("sync", [own, end] {
      static_cast<void>(::fdatasync(own) == 0);
      end();
    }).detach();
  } catch (const io_error&) {
    end();
    return false;
  }
  return true;
}

std::uint64_t growing_file::size() const {
  struct stat now = {};
  return ::fstat(descriptor_, &now) == 0 ? std::uint64_t(now.st_size) : 0;
}

bool growing_file::is_empty() const {
  struct stat what = {};
  return ::fstat(descriptor_, &what) != 0 || what.st_size == 0;
}

}  // namespace troupe::runtime
