// Memory of other processes of this host, read by the kernel (process_vm_readv).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::runtime {

/// This boot of this machine, this name space of processes, this user: who has the same may be
/// asked for its memory. Throws io_error.
std::string memory_host();
/// A number of it, never 0. Throws io_error.
std::uint64_t memory_host_number();

/// Where a security module lets only parents read, siblings may read this process from now on: the
/// processes of a run are siblings, and it does not know who they will be; others of this user
/// could read before. Elsewhere nothing changes.
void let_siblings_read();

/// From `at` there to the bytes here. 0, or what the system says: ESRCH: the process is gone;
/// EFAULT: it has no such memory; EPERM: it may not be read. Any thread.
int read_memory(std::int64_t pid, const void* at, std::span<std::byte> into);

}  // namespace troupe::runtime
