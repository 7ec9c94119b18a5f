#include "runtime/core/file.hpp"

#include "runtime/core/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t buffer_size = std::size_t{1} << 20;

[[noreturn]] void refuse(const char* tried, const std::filesystem::path& path, int error_number) {
  const auto advice = error_number == ENOSPC   ? "; free some space and try again"
                      : error_number == EROFS  ? "; choose a folder that is writable"
                      : error_number == EACCES ? "; check its owner and permissions"
                                               : "";
  throw io_error(
      "cannot {} '{}': {}{}", tried, path.string(), system_message(error_number), advice);
}

/// The path is wrong, as opposed to a system that refuses to open what may well be there.
bool names_nothing(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP
         || error_number == ENAMETOOLONG;
}

/// What a link leads to, whether it is there or not: the file is to be replaced, not the link.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int most_links = 40;  // as many as the kernel follows
  std::error_code failure;
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path, failure); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, failure);
  return path;
}

/// A device, a FIFO: something that is written into and must not be replaced.
bool is_special(const std::filesystem::path& path) {
  struct stat about = {};
  return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

}  // namespace

mapped_file::mapped_file(const std::filesystem::path& path) {
  const int descriptor
      = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO would wait for a writer
  if (descriptor < 0 && !names_nothing(errno))
    refuse("open", path, errno);
  if (descriptor < 0)
    throw input_error("cannot open '{}': {}", path.string(), system_message(errno));
  struct stat about = {};
  if (::fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
    const auto reason = S_ISDIR(about.st_mode) ? std::string("it is a folder, not a file")
                                               : std::string("it is not a regular file");
    ::close(descriptor);
    throw input_error("cannot read '{}': {}", path.string(), reason);
  }
  size_ = static_cast<std::size_t>(about.st_size);
  if (size_ > 0) {
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    const int error_number = errno;
    if (at == MAP_FAILED) {
      ::close(descriptor);
      size_ = 0;
      throw input_error("cannot map '{}': {}", path.string(), system_message(error_number));
    }
    data_ = static_cast<const std::byte*>(at);
  }
  ::close(descriptor);
}

mapped_file::mapped_file(mapped_file&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

mapped_file::~mapped_file() {
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), size_);
}

file_writer::file_writer(std::filesystem::path path) : path_(std::move(path)) {
  if (is_special(path_)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0)
      refuse("open for writing", path_, errno);
    return;
  }
  path_ = behind_links(std::move(path_));
  partial_ = path_.string() + ".partial-" + std::to_string(::getpid());
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    refuse("create", partial_, errno);
}

file_writer::~file_writer() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    if (!partial_.empty())
      ::unlink(partial_.c_str());
  }
}

void file_writer::write(const void* data, std::size_t size) {
  buffer_.append(static_cast<const char*>(data), size);
  size_ += size;
  if (buffer_.size() >= buffer_size)
    flush();
}

void file_writer::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const auto n = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno != EINTR)
      refuse("write", partial_.empty() ? path_ : partial_, errno);
    if (n > 0)
      done += static_cast<std::size_t>(n);
  }
  buffer_.clear();
}

void file_writer::commit() {
  flush();
  if (partial_.empty()) {
    if (::close(std::exchange(descriptor_, -1)) != 0)
      refuse("write", path_, errno);
    return;
  }
  if (::fsync(descriptor_) != 0)
    refuse("sync", partial_, errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0)
    refuse("rename to its final name", partial_, errno);
  ::close(std::exchange(descriptor_, -1));
  sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

std::optional<std::string> write_obstacle(const std::filesystem::path& path) {
  const auto answer = [](const std::filesystem::path& at) -> std::optional<std::string> {
    if (::access(at.c_str(), W_OK) == 0)
      return std::nullopt;
    return fmt::format("'{}': {}", at.string(), system_message(errno));
  };
  auto at = std::filesystem::absolute(behind_links(path)).lexically_normal();
  std::error_code failure;
  if (std::filesystem::exists(path, failure))
    if (const auto found = answer(path); found || is_special(path))
      return found;
  do
    at = at.parent_path();
  while (!std::filesystem::exists(at, failure) && at != at.root_path());
  if (!std::filesystem::is_directory(at, failure))
    return fmt::format("'{}' is not a folder", at.string());
  return answer(at);
}

std::string read_text(const std::filesystem::path& path) {
  return std::string(mapped_file(path).text());
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  file_writer out(path);
  out.write(text);
  out.commit();
}

void make_folder(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure)
    refuse("create the folder", path, failure.value());
}

void sync_folder(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    refuse("open the folder", path, errno);
  const int status = ::fsync(descriptor);
  const int error_number = errno;
  ::close(descriptor);
  if (status != 0 && error_number != EINVAL)  // EINVAL: this file system cannot sync folders
    refuse("sync the folder", path, error_number);
}

}  // namespace troupe::runtime
