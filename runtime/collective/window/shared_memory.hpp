// Memory for arrays that other processes of the host read in place.

#pragma once

#include "runtime/device/memory_pool.hpp"

#include <cstdint>
#include <optional>

namespace troupe::runtime {

/// Place of bytes in memory that others can map.
struct shared_place {
  int descriptor = -1;      ///< file descriptor in the owner's process; -1: none
  std::uint64_t inode = 0;  ///< distinguishes a later block with the same descriptor
  std::int64_t offset = 0;  ///< bytes
};

/// Allocates anonymous files. A block is freed when the last process unmaps it, and may outlive
/// this object. Any thread.
class shared_memory {
 public:
  shared_memory();

  /// Zeroed and page-aligned. Use it for few and large arrays, because each block needs a file
  /// descriptor. Blocks of 2 MiB or more use large pages if the system provides them, and then
  /// allocate all pages at once. Throws io_error.
  memory_block allocate(std::size_t bytes);
  /// Empty if the bytes are not within one block.
  std::optional<shared_place> find(const void* at, std::int64_t bytes) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Maps, read-only, the whole block of another process that contains `bytes` bytes at `of`. Null if
/// the block is gone or the system refuses. Reading never faults, whatever the owner does later.
std::shared_ptr<const std::byte> map_shared(std::int64_t pid,
                                            const shared_place& of,
                                            std::int64_t bytes);

}  // namespace troupe::runtime
