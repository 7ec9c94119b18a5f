#include "runtime/core/core_wait.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace troupe::runtime {

core_wait::~core_wait() {
  if (file_ >= 0)
    ::close(file_);
}

std::uint64_t waited_ns_in(const char* schedstat) {
  char* rest = nullptr;
  std::strtoull(schedstat, &rest, 10);
  return std::strtoull(rest, nullptr, 10);
}

std::uint64_t core_wait::ns() {
  if (!asked_) {
    asked_ = true;
    file_ = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  }
  char text[96];
  const auto n = file_ < 0 ? -1 : ::pread(file_, text, sizeof text - 1, 0);
  if (n > 0) {
    text[n] = 0;
    last_ = std::max(last_, waited_ns_in(text));
  }
  return last_;
}

}  // namespace troupe::runtime
