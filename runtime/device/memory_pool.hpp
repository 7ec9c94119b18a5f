// Memory that is kept and used again: a page fault costs more than most operations on the page.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::runtime {

/// Aligned to 64 bytes; goes back to its pool with the last copy.
using memory_block = std::shared_ptr<std::byte>;

/// Hands out blocks and keeps those that come back, by size class (four to a power of two, so at
/// most a quarter is waste). Copies share the pool; blocks may outlive it. Any thread.
class memory_pool {
 public:
  memory_pool();

  /// A pool that only counts: its blocks all lie in the same address space, which takes memory only
  /// where it is written. For forecasts of what a run will need: whatever is written is nonsense.
  static memory_pool shadow();
  bool is_shadow() const;

  /// Sets bytes of a fresh block to zero; those of a shadow are left alone.
  void clear(std::byte* block, std::size_t bytes) const;

  /// Throws std::bad_alloc wrapped in io_error: how much was asked for, how much is in use.
  memory_block allocate(std::size_t bytes);

  std::size_t bytes_in_use() const;  ///< rounded to size classes
  std::size_t peak_bytes() const;    ///< largest bytes_in_use since the last reset
  void reset_peak();

 private:
  std::byte* in_shadow(std::size_t size);

  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace troupe::runtime
