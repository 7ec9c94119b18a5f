// Descriptors of processes. By number: the C library's header (2.36) is not one for C++.

#pragma once

#include "runtime/process/descriptor.hpp"

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace troupe::runtime {

/// None, and errno, when it cannot be opened. pidfd_open(2); children do not inherit it.
inline descriptor open_pidfd(pid_t pid) {
  return descriptor(int(::syscall(SYS_pidfd_open, pid, 0)));
}

/// 0, or -1 and errno. pidfd_send_signal(2).
inline int signal_pidfd(const descriptor& pidfd, int number) {
  return int(::syscall(SYS_pidfd_send_signal, pidfd.number(), number, nullptr, 0));
}

}  // namespace troupe::runtime
