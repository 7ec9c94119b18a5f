#include "runtime/process/agents_share.hpp"

#include "runtime/core/error.hpp"
#include "runtime/process/host_agent.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace troupe::runtime {
namespace {

/// Locks the open file; forks share the lock.
bool lock_whole(const descriptor& file, short kind) {
  struct flock whole = {};
  whole.l_type = kind;
  whole.l_whence = SEEK_SET;
  return ::fcntl(file.number(), F_OFD_SETLK, &whole) == 0;
}

}  // namespace

// The last holder removes the file. A file that was opened before and locked after its removal is
// worthless; is_current detects it.
agents_share::agents_share(const run_folder& of)
    : file_(of.processes() / (agent_name() + ".lock")) {
  constexpr auto between = std::chrono::milliseconds(10);
  constexpr int most_tries = 500;
  for (int tries = 0; tries < most_tries; ++tries) {
    lock_ = descriptor(
        ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    if (!lock_)
      throw io_error("cannot open '{}': {}", file_.string(), system_message(errno));
    if (lock_whole(lock_, F_RDLCK)) {
      if (is_current())
        return;
    } else if (errno != EAGAIN && errno != EACCES) {
      throw io_error("cannot lock '{}': {}", file_.string(), system_message(errno));
    }
    std::this_thread::sleep_for(between);
  }
  throw io_error("cannot lock '{}': an agent that has ended is still removing its files",
                 file_.string());
}

void agents_share::end(const std::function<void()>& remove) {
  lock_whole(lock_, F_UNLCK);
  if (!is_current() || !lock_whole(lock_, F_WRLCK) || !is_current())
    return;
  remove();
  ::unlink(file_.c_str());
}

bool agents_share::is_current() const {
  struct stat ours = {}, there = {};
  return ::fstat(lock_.number(), &ours) == 0 && ::stat(file_.c_str(), &there) == 0
         && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

}  // namespace troupe::runtime
