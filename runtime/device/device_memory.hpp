// Sources of fresh memory for pools: the host allocator or a device.

#pragma once

#include "runtime/device/device.hpp"
#include "runtime/device/memory_pool.hpp"

#include <functional>
#include <memory>

namespace troupe::runtime {

/// Allocates memory of the queue's device, or host memory if `queue` is null. If the device is out
/// of memory and `insists` is true, all pools of the device release their idle memory and it tries
/// again. Returns null on failure.
std::byte* fresh_block(device_queue* queue, std::size_t bytes, bool insists = true);
/// Whether a pool may allocate more than it needs now. On a device, 1 GiB must stay free for other
/// pools and for libraries, which cannot make a pool release memory; false if the free memory is
/// unknown. On the host always true: untouched pages take no memory.
bool has_room_ahead(device_queue* queue, std::size_t bytes);
/// Waits for the events, then frees the memory.
void release_fresh(device_queue* queue,
                   std::byte* at,
                   const std::vector<std::shared_ptr<device_event>>& after) noexcept;

/// Throws io_error if the system refuses.
std::byte* fresh_pinned(device_queue& queue, std::size_t bytes);
void release_pinned(device_queue& queue,
                    std::byte* at,
                    const std::vector<std::shared_ptr<device_event>>& after) noexcept;

/// A pool that can help when its device is out of memory. `release` frees the idle memory and
/// returns its size in bytes. The entry is dropped when `pool` expires.
struct idle_source {
  std::weak_ptr<void> pool;
  std::function<std::size_t()> release;
};
void register_pool(int device, idle_source what);

/// Whether the writes published for a block have finished: a stream that borrows it then waits only
/// for its own work. Promise POOL-2: the block was published.
bool is_written(const memory_block& x);

/// Throws io_error with the request, the memory in use, the free memory if known, and the settings
/// to change.
[[noreturn]] void refuse_memory(device_queue* queue, std::size_t bytes, std::size_t in_use);

}  // namespace troupe::runtime
