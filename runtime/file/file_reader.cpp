#include "runtime/file/file_reader.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {

file_reader::file_reader(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    const auto text = fmt::format("cannot open '{}': {}", path_.string(), system_message(errno));
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG)
      throw input_error("{}", text);
    throw io_error("{}{}", text, errno == EACCES ? "; check its owner and permissions" : "");
  }
  struct stat about = {};
  if (::fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    throw input_error(
        "cannot read '{}': {}",
        path_.string(),
        S_ISDIR(about.st_mode) ? "it is a folder, not a file" : "it is not a regular file");
  }
  size_ = std::uint64_t(about.st_size);
}

file_reader::~file_reader() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

std::size_t file_reader::read(void* into, std::size_t size) {
  const auto wanted = std::size_t(std::min<std::uint64_t>(size, size_ - at_));
  while (wanted > 0) {
    const auto n = ::read(descriptor_, into, wanted);
    if (n > 0) {
      at_ += std::uint64_t(n);
      return std::size_t(n);
    }
    if (n == 0)
      throw input_error(
          "cannot read '{}': it was cut short from {} to {} bytes while it was read; restore it "
          "and start again",
          path_.string(),
          size_,
          at_);
    if (errno != EINTR)
      throw input_error(
          "cannot read '{}' at byte {}: {}; the disk may be failing: restore the file from a copy",
          path_.string(),
          at_,
          system_message(errno));
  }
  return 0;
}

void file_reader::seek(std::uint64_t at) {
  if (at > size_ || ::lseek(descriptor_, off_t(at), SEEK_SET) < 0)
    throw input_error("cannot read '{}' from byte {}: it has {}", path_.string(), at, size_);
  at_ = at;
}

}  // namespace troupe::runtime
