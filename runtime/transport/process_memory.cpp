#include "runtime/transport/process_memory.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace troupe::runtime {

std::string memory_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat space = {};
  if (!std::getline(file, boot) || ::stat("/proc/self/ns/pid", &space) != 0)
    throw io_error(
        "cannot identify this machine by /proc/sys/kernel/random/boot_id and "
        "/proc/self/ns/pid: {}; mount /proc, or run without shared memory",
        system_message(errno));
  return fmt::format("{}/{}/{}", boot, space.st_ino, ::getuid());
}

std::uint64_t memory_host_number() {
  return std::max<std::uint64_t>(hash64(memory_host()), 1);
}

void let_siblings_read() {
#ifdef PR_SET_PTRACER
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

int read_memory(std::int64_t pid, const void* at, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec here{into.data(), into.size()};
    const iovec there{const_cast<void*>(at), into.size()};
    const auto n = ::process_vm_readv(pid_t(pid), &here, 1, &there, 1, 0);
    if (n < 0 && errno != EINTR)
      return errno;
    if (n == 0)
      return EFAULT;
    if (n > 0) {
      into = into.subspan(std::size_t(n));
      at = static_cast<const std::byte*>(at) + n;
    }
  }
  return 0;
}

}  // namespace troupe::runtime
