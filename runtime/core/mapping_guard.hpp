// What happens where a mapped file cannot be read.
//
// A sector that the disk cannot read, or a file that was cut short, is no error of a call: the
// system sends SIGBUS to the thread that touches the page; that ends the process. A guarded mapping
// has zeros there instead, and remembers it; a caller that uses what it read asks first
// (docs/decisions/0015-mapped-files.md).

#pragma once

#include <cstddef>
#include <optional>

namespace troupe::runtime {

/// Guards [begin, begin + size), which is mapped, and unmapped only afterwards. The first guard of
/// a process takes over SIGBUS. A fault in no guarded mapping, and a SIGBUS that was sent, go to
/// the handler that was there before, and the guards hold on; where there was none they end the
/// process as they would have. A SIGBUS that was sent and was ignored before is ignored.
class mapping_guard {
 public:
  mapping_guard(const void* begin, std::size_t size);
  ~mapping_guard();
  mapping_guard(const mapping_guard&) = delete;
  mapping_guard& operator=(const mapping_guard&) = delete;

  /// Where the first page begins, counted from the mapping's begin, that was touched and could not
  /// be read; nothing: whatever was read lies so in the file. Any thread.
  std::optional<std::size_t> unreadable() const;

  struct guarded_range;  ///< of the list that the handler walks

 private:
  guarded_range* range_;
};

}  // namespace troupe::runtime
