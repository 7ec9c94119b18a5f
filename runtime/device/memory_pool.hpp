// Memory that is kept and used again: a page fault costs more than most operations on the page, and
// asking a device for memory stops it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::runtime {

class device_event;
class device_queue;

/// Aligned to 64 bytes; goes back to its pool with the last copy.
using memory_block = std::shared_ptr<std::byte>;

enum class memory_kind : std::uint8_t {
  host,
  pinned,  ///< host memory that devices read and write by themselves
  device,
};

/// Of a block of a pool; anything else is host memory.
memory_kind kind_of(const memory_block& x);
/// The device whose memory it is, or that works with what was lent to it; -1: the host.
int device_of(const memory_block& x);

/// Where a pool gets memory from that other processes of the host can map; null: there is none now.
using memory_source = std::function<memory_block(std::size_t bytes)>;

/// Hands out blocks and keeps those that come back, by size class: four to a power of two below 16
/// MiB, so at most a quarter is waste, and multiples of 2 MiB above. From 1 MiB on what came back
/// is cut for smaller ones and joined for larger ones (idle_ranges.hpp), and the system is asked
/// for up to 512 MiB ahead of need, of a device while 1 GiB stays free. Copies share the pool;
/// blocks may outlive it, and keep what it has. Any thread.
///
/// The pool of a queue hands out the memory of its device, in the order of the queue: a block that
/// comes back is used again at once, for what is enqueued later happens later. Blocks that were
/// lent to other queues (`lend`) are used again when those have done with them.
class memory_pool {
 public:
  memory_pool();  ///< of host memory, until it serves a queue

  /// A pool that only counts: its blocks all lie in the same address space, which takes memory only
  /// where it is written. For forecasts of what a run will need: whatever is written is nonsense.
  static memory_pool shadow();
  bool is_shadow() const;

  /// From now on it hands out memory of the queue's device. Before its first block (POOL-1).
  void serve(std::shared_ptr<device_queue> queue);
  memory_kind kind() const;

  /// Sets bytes of a fresh block to zero; those of a shadow are left alone.
  void clear(std::byte* block, std::size_t bytes) const;
  /// Between the host and blocks of this pool. `write` has read `from` when it returns; `read`
  /// waits until the queue has come so far. With a shadow nothing is moved.
  void write(void* block, const void* from, std::size_t bytes) const;
  void read(void* to, const void* block, std::size_t bytes) const;

  /// Throws std::bad_alloc wrapped in io_error: how much was asked for, how much is in use.
  memory_block allocate(std::size_t bytes);
  /// Host memory that the queue's device writes to; ordinary where there is none.
  memory_block allocate_pinned(std::size_t bytes);

  /// From now on `allocate_shared` takes host memory from there; an empty source: no longer.
  void share_by(memory_source from);
  /// For the few large arrays that a rank sums and gathers with others in every step. As
  /// `allocate_apart` where there is no source, or it has none. What comes from a source goes back
  /// to it with the last copy, and not to the pool.
  memory_block allocate_shared(std::size_t bytes);
  /// For the few large arrays that outlive who uses the pool (rank_estate): a segment of a device
  /// for each, in which nothing else lies. It goes back to the device with the last copy, when its
  /// users have done with it, which the caller waits for; and it keeps nothing else of the pool,
  /// whose other memory goes back to the device when nobody has the pool any more. Of the host, and
  /// in a shadow, as `allocate`.
  memory_block allocate_apart(std::size_t bytes);

  /// Gives back what nobody uses now, of large memory segments that are wholly idle: for who keeps
  /// some blocks longer than the pool is needed.
  void release_idle();

  std::size_t bytes_in_use() const;  ///< rounded to size classes
  /// What the system gave and has not got back, idle memory too; nothing that is shared, pinned, or
  /// of a device and apart.
  std::size_t held_bytes() const;
  std::size_t peak_bytes() const;  ///< largest bytes_in_use since the last reset
  void reset_peak();

 private:
  std::byte* in_shadow(std::size_t size);

  struct state;
  friend struct block_keeper;
  friend struct shared_keeper;
  std::shared_ptr<state> state_;
};

/// What a queue wrote into a block until `event` can be read by other queues that wait for it. No
/// effect on host memory.
void publish(const memory_block& x, std::shared_ptr<device_event> event);

/// The same memory for the use of another queue: that waits for what was published, and the memory
/// is used again only after what that queue had enqueued when the last copy was dropped. The block
/// itself where it is host memory or of that queue already.
memory_block lend(const memory_block& x, const std::shared_ptr<device_queue>& to);

}  // namespace troupe::runtime
