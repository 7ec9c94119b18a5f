// Scheduling delay of a thread: the time that it was runnable without a core.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// Belongs to the thread that calls `ns` first; no other thread may call it.
class core_wait {
 public:
  core_wait() = default;
  core_wait(const core_wait&) = delete;
  core_wait& operator=(const core_wait&) = delete;
  ~core_wait();

  /// Nanoseconds since the thread's start in which it was runnable but had no core. Never
  /// decreases. Source: /proc/thread-self/schedstat; always 0 on systems without it.
  std::uint64_t ns();

 private:
  int file_ = -1;
  bool asked_ = false;
  std::uint64_t last_ = 0;
};

/// Parses the second number of a schedstat line such as "123 456 7". Returns 0 if it is missing.
std::uint64_t waited_ns_in(const char* schedstat);

}  // namespace troupe::runtime
