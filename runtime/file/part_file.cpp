#include "runtime/file/part_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t part_buffer = std::size_t{1} << 20;

[[noreturn]] void refuse_part(const char* tried, const std::filesystem::path& path, int number) {
  const auto advice = number == ENOSPC || number == EDQUOT
                          ? "; free some space and run the same command again"
                      : number == EROFS  ? "; choose a folder that is writable"
                      : number == EACCES ? "; check its owner and permissions"
                      : number == EFBIG  ? "; raise the limit of file sizes (ulimit -f)"
                                         : "";
  throw io_error("cannot {} '{}': {}{}", tried, path.string(), system_message(number), advice);
}

}  // namespace

part_file::part_file(std::filesystem::path path, std::uint64_t size)
    : path_(std::move(path)), size_(size) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0)
    refuse_part("create", path_, errno);
  struct stat about = {};
  const bool known = ::fstat(descriptor_, &about) == 0;
  if (!known || std::uint64_t(about.st_size) < size) {
    ::close(std::exchange(descriptor_, -1));
    throw input_error("cannot resume '{}': it has {} bytes, but {} were written",
                      path_.string(),
                      known ? about.st_size : 0,
                      size);
  }
  if (::ftruncate(descriptor_, off_t(size)) != 0 || ::lseek(descriptor_, 0, SEEK_END) < 0) {
    const int number = errno;
    ::close(std::exchange(descriptor_, -1));
    refuse_part("cut", path_, number);
  }
}

part_file::~part_file() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void part_file::write(const void* data, std::size_t size) {
  buffer_.append(static_cast<const char*>(data), size);
  size_ += size;
  if (buffer_.size() >= part_buffer)
    flush();
}

void part_file::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const auto n = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno != EINTR)
      refuse_part("write", path_, errno);
    if (n > 0)
      done += std::size_t(n);
  }
  buffer_.clear();
  if (buffer_.capacity() > 4 * part_buffer)
    buffer_.shrink_to_fit();
}

void part_file::sync() {
  flush();
  if (::fsync(descriptor_) != 0)
    refuse_part("sync", path_, errno);
}

placed_file::placed_file(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0)
    refuse_part("create", path_, errno);
}

placed_file::~placed_file() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

std::string placed_file::beginning(std::size_t size) const {
  std::string out(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const auto n = ::pread(descriptor_, out.data() + done, size - done, off_t(done));
    if (n == 0)
      break;
    if (n < 0 && errno != EINTR)
      refuse_part("read", path_, errno);
    done += n > 0 ? std::size_t(n) : 0;
  }
  out.resize(done);
  return out;
}

void placed_file::write(std::uint64_t at, const void* data, std::size_t size) {
  const auto* const from = static_cast<const char*>(data);
  for (std::size_t done = 0; done < size;) {
    const auto n = ::pwrite(descriptor_, from + done, size - done, off_t(at + done));
    if (n < 0 && errno != EINTR)
      refuse_part("write", path_, errno);
    done += n > 0 ? std::size_t(n) : 0;
  }
}

void rename_part(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    refuse_part("rename to its final name", from, errno);
  sync_folder(folder_of(to));
}

void remove_file(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    refuse_part("remove", path, errno);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace troupe::runtime
