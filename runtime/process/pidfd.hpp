// Descriptors of processes. Uses system call numbers: the header of glibc 2.36 does not compile as
// C++.

#pragma once

#include "runtime/process/descriptor.hpp"

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace troupe::runtime {

/// pidfd_open(2). Empty, with errno set, when it fails. Children do not inherit the descriptor.
inline descriptor open_pidfd(pid_t pid) {
  return descriptor(int(::syscall(SYS_pidfd_open, pid, 0)));
}

/// pidfd_send_signal(2). 0, or -1 with errno set.
inline int signal_pidfd(const descriptor& pidfd, int number) {
  return int(::syscall(SYS_pidfd_send_signal, pidfd.number(), number, nullptr, 0));
}

}  // namespace troupe::runtime
