// Reads memory of other processes of this host (process_vm_readv).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::runtime {

/// Identifies this boot of this machine, the pid namespace and the user. Processes with the same
/// value may read each other's memory. Throws io_error.
std::string memory_host();
/// A hash of memory_host, never 0. Throws io_error.
std::uint64_t memory_host_number();

/// Lets sibling processes read this process's memory where a security module (Yama) allows only
/// parents. The processes of a run are siblings, and their pids are not known yet. Without such a
/// module every process of this user can read anyway.
void let_siblings_read();

/// Reads from address `at` of process `pid`. Returns 0 or errno. ESRCH: the process is gone;
/// EFAULT: no such memory; EPERM: not allowed. Any thread.
int read_memory(std::int64_t pid, const void* at, std::span<std::byte> into);

}  // namespace troupe::runtime
