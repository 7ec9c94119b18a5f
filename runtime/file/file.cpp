#include "runtime/file/file.hpp"

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
constexpr std::string_view part_mark = ".partial-";

[[noreturn]] void refuse(const char* tried, const std::filesystem::path& path, int error_number) {
  std::error_code failure;
  const auto advice = error_number == ENOSPC   ? "; free some space and try again"
                      : error_number == EROFS  ? "; choose a folder that is writable"
                      : error_number == EACCES ? "; check its owner and permissions"
                      : error_number == EFBIG  ? "; raise the limit of file sizes (ulimit -f)"
                      : error_number == EMFILE ? "; raise the limit of open files (ulimit -n)"
                      : error_number == ENXIO && std::filesystem::is_fifo(path, failure)
                          ? "; it is a FIFO without a reader: remove it"
                          : "";
  throw io_error(
      "cannot {} '{}': {}{}", tried, path.string(), system_message(error_number), advice);
}

// An input_error blames this file, so that a caller can fall back to another one.
[[noreturn]] void refuse_to_read(const std::filesystem::path& path,
                                 std::size_t at,
                                 int error_number) {
  throw input_error(
      "cannot read '{}' at byte {}: {}; the disk may be failing: restore the file from a copy",
      path.string(),
      at,
      system_message(error_number));
}

/// True if the path itself is wrong; false if the system refuses to open a file that may exist.
bool names_nothing(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP
         || error_number == ENAMETOOLONG;
}

/// Resolves symbolic links, also dangling ones: a write replaces the target and keeps the link.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int most_links = 40;  // the kernel's limit
  std::error_code failure;
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path, failure); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, failure);
  return path;
}

/// True for devices and FIFOs, which are written into and must not be replaced.
bool is_special(const std::filesystem::path& path) {
  struct stat about = {};
  return ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

/// True if nothing in `part` changed for surely_dead. Checks a folder's content too, because
/// writing to a file does not update its folder's time.
bool is_untouched(const std::filesystem::path& part) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const auto old = fs::file_time_type::clock::now() - surely_dead;
  const auto is_old
      = [&](const fs::path& x) { return fs::last_write_time(x, failure) < old && !failure; };
  bool out = is_old(part);
  if (out && fs::is_directory(part, failure))
    for (fs::recursive_directory_iterator at(part, failure), end; out && !failure && at != end;
         at.increment(failure))
      out = is_old(at->path());
  return out && !failure;
}

template <class IsDead>
void remove_parts_of_type(const std::filesystem::path& path,
                          std::filesystem::file_type type,
                          const IsDead& is_dead) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const auto whole = fs::absolute(behind_links(path), failure);
  const auto begin = whole.filename().string().append(part_mark);
  for (fs::directory_iterator at(whole.parent_path(), failure), end; !failure && at != end;
       at.increment(failure)) {
    const auto name = at->path().filename().string();
    std::error_code gone;
    if (!name.starts_with(begin) || name.size() == begin.size()
        || name.find_first_not_of("0123456789", begin.size()) != name.npos
        || at->symlink_status(gone).type() != type)
      continue;
    if (is_dead(name.substr(begin.size())) || is_untouched(at->path()))
      fs::remove_all(at->path(), gone);
  }
}

auto written_by(std::optional<pid_t> process) {
  return [process](std::string_view pid) { return process && pid == std::to_string(*process); };
}

/// Returns the descriptor and the size in bytes.
std::pair<int, std::size_t> open_regular(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
  return {descriptor, static_cast<std::size_t>(about.st_size)};
}

}  // namespace

mapped_file::mapped_file(const std::filesystem::path& path)
    : path_(path), absolute_(std::filesystem::absolute(path)) {
  const auto [descriptor, size] = open_regular(path);
  if (size == 0) {
    ::close(descriptor);
    return;
  }
  struct stat about = {};
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error_number = errno;
  ::fstat(descriptor, &about);
  ::close(descriptor);  // the mapping stays: thousands of data sets take no descriptors
  if (at == MAP_FAILED)
    throw input_error("cannot map '{}': {}{}",
                      path.string(),
                      system_message(error_number),
                      error_number == ENOMEM
                          ? "; every file takes one map: raise vm.max_map_count by sysctl, or the "
                            "limit of ulimit -v"
                          : "");
  device_ = about.st_dev;
  inode_ = about.st_ino;
  data_ = static_cast<const std::byte*>(at);
  size_ = size;
  try {
    guard_ = std::make_unique<mapping_guard>(data_, size_);
  } catch (...) {
    close();
    throw;
  }
}

mapped_file::mapped_file(mapped_file&& other) noexcept {
  *this = std::move(other);
}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(absolute_, other.absolute_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(guard_, other.guard_);
  return *this;
}

mapped_file::~mapped_file() {
  close();
}

void mapped_file::close() {
  guard_.reset();
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), size_);
}

void mapped_file::require_intact() const {
  if (guard_ == nullptr)
    return;
  struct stat about = {};
  const bool known
      = ::stat(absolute_.c_str(), &about) == 0 && about.st_dev == device_ && about.st_ino == inode_;
  if (known && std::size_t(about.st_size) < size_)
    throw input_error(
        "cannot read '{}': it was cut short from {} to {} bytes while it was read; restore it and "
        "start again",
        path_.string(),
        size_,
        about.st_size);
  if (const auto at = guard_->unreadable())
    refuse_to_read(path_, *at, EIO);
}

file_writer::file_writer(std::filesystem::path path) : path_(std::move(path)) {
  if (is_special(path_)) {
    // Opening a FIFO must not wait for a reader (O_NONBLOCK); writing to it may wait.
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0)
      refuse("open for writing", path_, errno);
    ::fcntl(descriptor_, F_SETFL, O_WRONLY);
    return;
  }
  path_ = behind_links(std::move(path_));
  partial_ = fmt::format("{}{}{}", path_.string(), part_mark, ::getpid());
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

void remove_parts_of(const std::filesystem::path& path, std::optional<pid_t> dead) {
  remove_parts_of_type(path, std::filesystem::file_type::regular, written_by(dead));
}

void remove_all_parts_of(const std::filesystem::path& path) {
  remove_parts_of_type(
      path, std::filesystem::file_type::regular, [](std::string_view) { return true; });
}

void remove_part_folders_of(const std::filesystem::path& path, std::optional<pid_t> dead) {
  remove_parts_of_type(path, std::filesystem::file_type::directory, written_by(dead));
}

std::optional<std::string> write_obstacle(const std::filesystem::path& path) {
  const auto answer = [](const std::filesystem::path& at) -> std::optional<std::string> {
    if (::access(at.c_str(), W_OK) == 0)
      return std::nullopt;
    return fmt::format("'{}': {}", at.string(), system_message(errno));
  };
  auto at = std::filesystem::absolute(behind_links(path)).lexically_normal();
  std::error_code failure;
  const auto what = std::filesystem::status(path, failure);
  if (what.type() == std::filesystem::file_type::none)  // status() failed
    return fmt::format("'{}': {}", path.string(), failure.message());
  if (std::filesystem::exists(what))
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
  const auto [descriptor, size] = open_regular(path);
  std::string out(size, '\0');
  std::size_t done = 0;
  int error_number = 0;
  while (done < size && error_number == 0) {
    const auto n = ::read(descriptor, out.data() + done, size - done);
    if (n == 0)
      break;  // the file has shrunk
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      error_number = errno;
  }
  ::close(descriptor);
  if (error_number != 0)
    refuse_to_read(path, done, error_number);
  out.resize(done);
  return out;
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
