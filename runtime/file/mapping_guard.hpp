// Guards mapped files against SIGBUS.
//
// An unreadable sector or a truncated file is not an error of a call: the system sends SIGBUS to
// the thread that touches the page, which ends the process. A guarded mapping reads zeros there and
// remembers the fault. Callers check `unreadable` before they use what they read
// (docs/decisions/0015-mapped-files.md).

#pragma once

#include <cstddef>
#include <optional>

namespace troupe::runtime {

/// Guards the mapping [begin, begin + size); unmap it only after the guard's end. The first guard
/// of a process installs a SIGBUS handler. Faults outside guarded mappings, and SIGBUS sent by a
/// process, go to the previous handler, and the guard stays active. Without a previous handler they
/// end the process. A sent SIGBUS is ignored if it was ignored before.
class mapping_guard {
 public:
  mapping_guard(const void* begin, std::size_t size);
  ~mapping_guard();
  mapping_guard(const mapping_guard&) = delete;
  mapping_guard& operator=(const mapping_guard&) = delete;

  /// Offset of the first page that was touched and could not be read; nothing if all reads returned
  /// the file's bytes. Any thread.
  std::optional<std::size_t> unreadable() const;

  struct guarded_range;  ///< entry of the list that the handler walks

 private:
  guarded_range* range_;
};

}  // namespace troupe::runtime
