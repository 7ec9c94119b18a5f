// Faults of a disk, planted where the C library is called: the n-th call that changes something
// below a folder is refused by "the system", or the process dies at it.
//
// The library troupe_disk_faults stands between the program and the C library; a test links it, or
// preloads it into another program, whose environment then says what is planted:
//
//   TROUPE_TEST_DISK_FAULT="/a/folder 3 28 1000 write,fsync"    below nth error count calls
//   TROUPE_TEST_DISK_FAULT="/a/folder 1 0 1000 fsync /a/gate"   ... gate
//
// Counted are open (for writing), write, fsync, rename, unlink, rmdir, mkdir and ftruncate, each
// with its relatives (openat, pwrite, renameat2 ...). What stdio writes is not seen. Only where
// they are named, so that the numbers of the others stay: fdatasync; read, and mmap, which is not
// refused, but maps a page in the middle that cannot be read, as over a broken sector.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::tests {

struct disk_fault {
  std::string below;      ///< absolute; empty: nothing is planted or counted
  std::uint64_t nth = 0;  ///< the first call that is struck, from 1; 0: they are only counted
  /// The errno of those that are struck; 0: the process is killed; below 0: it gets the signal
  /// -error, and the call is carried out.
  int error = 0;
  std::uint64_t count = 1;  ///< how many in a row are struck
  std::string calls = {};   ///< "rename,fsync": only these are counted; empty: all
  /// Only as long as this file exists those that are struck are refused; with `error` 0, as by a
  /// slow disk, they wait until it is gone, and are carried out.
  std::string gate = {};
};

/// In place of what was planted before; the count begins at 0. No other thread writes meanwhile.
void plant(const disk_fault& what);

/// Calls counted since.
std::uint64_t disk_calls();

/// Planted while this stands.
class planted_disk_fault {
 public:
  explicit planted_disk_fault(const disk_fault& what) { plant(what); }
  ~planted_disk_fault() { plant({}); }
  planted_disk_fault(const planted_disk_fault&) = delete;
  planted_disk_fault& operator=(const planted_disk_fault&) = delete;
};

}  // namespace troupe::tests
