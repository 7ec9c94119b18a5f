// Plants disk faults in calls of the C library: the n-th call that changes something below a folder
// fails with an error of the system, or kills the process.
//
// The library troupe_disk_faults intercepts calls of the C library. A test links it, or preloads it
// into another program; the environment of that program then describes the fault:
//
//   TROUPE_TEST_DISK_FAULT="/a/folder 3 28 1000 write,fsync"    below nth error count calls
//   TROUPE_TEST_DISK_FAULT="/a/folder 1 0 1000 fsync /a/gate"   ... gate
//
// It counts open (for writing), write, fsync, rename, unlink, rmdir, mkdir and ftruncate, each with
// its variants (openat, pwrite, renameat2 ...). It does not see writes of stdio. It counts
// fdatasync, read and mmap only if `calls` names them, so the numbers of the other calls stay. A
// struck mmap succeeds, but one page in the middle cannot be read, as over a broken sector.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::tests {

struct disk_fault {
  std::string below;      ///< absolute path; empty: no fault, no count
  std::uint64_t nth = 0;  ///< the first struck call, from 1; 0: only counts
  /// The errno of a struck call. 0: kills the process. Below 0: sends the signal -error to the
  /// process and carries out the call.
  int error = 0;
  std::uint64_t count = 1;  ///< number of struck calls in a row
  std::string calls = {};   ///< calls to count, such as "rename,fsync"; empty: all
  /// Struck calls fail only while this file exists. With `error` 0 they wait until it is gone and
  /// are then carried out, as on a slow disk.
  std::string gate = {};
};

/// Replaces the planted fault; the count begins at 0. No other thread writes meanwhile.
void plant(const disk_fault& what);

/// Counted calls since the last plant().
std::uint64_t disk_calls();

/// Plants a fault for its lifetime.
class planted_disk_fault {
 public:
  explicit planted_disk_fault(const disk_fault& what) { plant(what); }
  ~planted_disk_fault() { plant({}); }
  planted_disk_fault(const planted_disk_fault&) = delete;
  planted_disk_fault& operator=(const planted_disk_fault&) = delete;
};

}  // namespace troupe::tests
