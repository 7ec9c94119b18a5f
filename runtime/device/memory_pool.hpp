// A memory pool: keeps freed blocks and reuses them.
//
// A page fault costs more than most operations on the page, and an allocation of device memory
// stops the device.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::runtime {

class device_event;
class device_queue;

/// Aligned to 64 bytes; returns to its pool when the last copy is dropped.
using memory_block = std::shared_ptr<std::byte>;

enum class memory_kind : std::uint8_t {
  host,
  pinned,  ///< host memory that devices access directly
  device,
};

/// Memory kind of a pool's block; host for any other memory.
memory_kind kind_of(const memory_block& x);
/// The device that owns the memory or has borrowed it; -1 for host memory.
int device_of(const memory_block& x);

/// Allocates host memory that other processes of the host can map; null if none is available now.
using memory_source = std::function<memory_block(std::size_t bytes)>;

/// Hands out blocks and keeps returned ones by size class: four classes per power of two below 16
/// MiB (at most a quarter is wasted), multiples of 2 MiB above. Blocks of 1 MiB or more are split
/// and merged (idle_ranges.hpp). The pool may allocate up to 512 MiB ahead of need, on a device
/// only while 1 GiB stays free. Copies share the pool; blocks may outlive it and keep its memory
/// alive. Any thread may use it.
///
/// A pool that serves a queue hands out device memory in the order of the queue: a returned block
/// is reused at once, because later work runs later. Blocks that were lent to other queues (`lend`)
/// are reused after the work of those queues.
class memory_pool {
 public:
  memory_pool();  ///< of host memory, until `serve`

  /// A pool that only counts, for memory forecasts. All its blocks share one address range that is
  /// never touched; their contents are undefined.
  static memory_pool shadow();
  bool is_shadow() const;

  /// Switches to memory of the queue's device. Promise POOL-1: call it before the first block.
  void serve(std::shared_ptr<device_queue> queue);
  memory_kind kind() const;

  /// Zeroes the bytes; no effect on a shadow.
  void clear(std::byte* block, std::size_t bytes) const;
  /// Copy between the host and blocks of this pool; no effect on a shadow. `write` has read `from`
  /// when it returns. `read` waits until the queue has finished its earlier work.
  void write(void* block, const void* from, std::size_t bytes) const;
  void read(void* to, const void* block, std::size_t bytes) const;

  /// Throws io_error with the requested size and the memory in use.
  memory_block allocate(std::size_t bytes);
  /// Pinned host memory for transfers; ordinary memory if the pool has no queue.
  memory_block allocate_pinned(std::size_t bytes);

  /// Sets the source of `allocate_shared`; an empty function removes it.
  void share_by(memory_source from);
  /// Memory from the source of `share_by`, to which the last copy returns it. Use it for the few
  /// large arrays that a rank reduces and gathers in every step. Falls back to `allocate_apart`
  /// without a source, or if the source has none.
  memory_block allocate_shared(std::size_t bytes);
  /// A separate device segment for each block, for the few large arrays that outlive the pool's
  /// user (rank_estate). Dropping the last copy waits for pending work and returns the segment to
  /// the device. The block does not keep the pool's other memory alive. On the host and in a shadow
  /// it is the same as `allocate`.
  memory_block allocate_apart(std::size_t bytes);

  /// Returns idle memory to the system: small blocks, and large segments that are entirely idle.
  /// Owners call it if they keep some blocks longer than they need the pool.
  void release_idle();

  std::size_t bytes_in_use() const;  ///< in size classes
  /// Bytes obtained from the system and not returned, idle memory included. Without shared and
  /// pinned memory and device blocks of `allocate_apart`.
  std::size_t held_bytes() const;
  std::size_t peak_bytes() const;  ///< maximum of bytes_in_use since the last reset
  void reset_peak();

 private:
  std::byte* in_shadow(std::size_t size);

  struct state;
  friend struct block_keeper;
  friend struct shared_keeper;
  std::shared_ptr<state> state_;
};

/// Marks the contents of a block as ready for other queues once `event` has passed. No effect on
/// host memory.
void publish(const memory_block& x, std::shared_ptr<device_event> event);

/// Returns the same memory for use by another queue. That queue waits for the published event. The
/// memory is reused only after the work that the queue has enqueued when the last copy is dropped.
/// Returns the block itself if it is host memory or belongs to that queue already.
memory_block lend(const memory_block& x, const std::shared_ptr<device_queue>& to);

}  // namespace troupe::runtime
