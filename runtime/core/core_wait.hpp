// How long a thread has waited for a core.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// Of the thread that asks first, and asks alone.
class core_wait {
 public:
  core_wait() = default;
  core_wait(const core_wait&) = delete;
  core_wait& operator=(const core_wait&) = delete;
  ~core_wait();

  /// Since the thread began: how long it could have run while others had all the cores, in
  /// nanoseconds; never less than it was, and always 0 where the system does not say (Linux does,
  /// by /proc/thread-self/schedstat).
  std::uint64_t ns();

 private:
  int file_ = -1;
  bool asked_ = false;
  std::uint64_t last_ = 0;
};

/// The second number of "123 456 7", as the system says it; 0 where there is none.
std::uint64_t waited_ns_in(const char* schedstat);

}  // namespace troupe::runtime
