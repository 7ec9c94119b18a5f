#include "runtime/checkpoint/regained_lock.hpp"

#include "runtime/checkpoint/folder.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace troupe::runtime {

bool is_locked(const std::filesystem::path& dir) {
  const int file = ::open((dir / lock_file).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return false;
  const bool held = ::flock(file, LOCK_SH | LOCK_NB) != 0;
  const bool ours = held && holder_of(file) == fmt::format("process {}", ::getpid());
  ::close(file);
  return ours;
}

std::unique_ptr<directory_lock> regained_lock(const std::filesystem::path& dir) {
  if (is_locked(dir))
    return nullptr;
  try {
    return std::make_unique<directory_lock>(dir);
  } catch (const input_error& other) {
    throw io_error("the save folder was removed while this run went on, and {}", other.what());
  }
}

}  // namespace troupe::runtime
