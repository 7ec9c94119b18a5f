// Memory in which a process keeps arrays that other processes of its host add up where they lie.

#pragma once

#include "runtime/device/memory_pool.hpp"

#include <cstdint>
#include <optional>

namespace troupe::runtime {

/// Where bytes lie in memory that others can map.
struct shared_place {
  int descriptor = -1;      ///< of the process; -1: nowhere
  std::uint64_t inode = 0;  ///< tells it from a later block with that descriptor
  std::int64_t offset = 0;  ///< bytes
};

/// Each block is memory without a name in any folder; it is gone when the last process that has
/// mapped it drops it. Blocks may outlive this. Any thread.
class shared_memory {
 public:
  shared_memory();

  /// Zeroed, aligned to a page: for few and large arrays, as each takes a descriptor. From 2 MiB on
  /// in large pages, and then with all of them at once, where the system gives them. Throws
  /// io_error.
  memory_block allocate(std::size_t bytes);
  /// Empty: they do not lie within one block.
  std::optional<shared_place> find(const void* at, std::int64_t bytes) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

/// Maps for reading the whole block in which another process has `bytes` at that place; null: it
/// has it no more, or the system refuses. What the owner does to it later never makes reading fail.
std::shared_ptr<const std::byte> map_shared(std::int64_t pid,
                                            const shared_place& of,
                                            std::int64_t bytes);

}  // namespace troupe::runtime
