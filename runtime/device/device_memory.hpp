// Where pools get fresh memory from: the host's allocator, or a device.

#pragma once

#include "runtime/device/device.hpp"
#include "runtime/device/memory_pool.hpp"

#include <functional>
#include <memory>

namespace troupe::runtime {

/// Null when there is not so much. Of the queue's device; of the host where the queue is null.
/// Where a device is short, all its pools give back what is idle before null is returned, unless
/// the caller can do with less.
std::byte* fresh_block(device_queue* queue, std::size_t bytes, bool insists = true);
/// Whether a pool may ask for so much where it needs less: 1 GiB of the device stays free then, for
/// other pools and for libraries, which cannot ask a pool to give something back. False where what
/// is free is not known. Of the host always: memory that nobody writes to takes none of it.
bool has_room_ahead(device_queue* queue, std::size_t bytes);
/// After the events have passed.
void release_fresh(device_queue* queue,
                   std::byte* at,
                   const std::vector<std::shared_ptr<device_event>>& after) noexcept;

/// Throws io_error when the system does not give so much.
std::byte* fresh_pinned(device_queue& queue, std::size_t bytes);
void release_pinned(device_queue& queue,
                    std::byte* at,
                    const std::vector<std::shared_ptr<device_event>>& after) noexcept;

/// A pool of a device, for others that are short: `release` gives back what is idle and returns the
/// bytes. Forgotten when the pool is gone.
struct idle_source {
  std::weak_ptr<void> pool;
  std::function<std::size_t()> release;
};
void register_pool(int device, idle_source what);

/// Whether what was published of it has been written: the stream it is lent to waits for nothing
/// but itself. POOL-2: it was published.
bool is_written(const memory_block& x);

/// Throws io_error: what was asked for, what is in use, what is free, where that is known, and
/// which setting to change.
[[noreturn]] void refuse_memory(device_queue* queue, std::size_t bytes, std::size_t in_use);

}  // namespace troupe::runtime
