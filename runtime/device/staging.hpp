// Bytes between pageable host memory and a device, through a little that is pinned.

#pragma once

#include "runtime/device/device.hpp"
#include "runtime/device/memory_pool.hpp"

#include <cstddef>

namespace troupe::runtime {

/// Behind what the queue has, which the pool serves. `from` has been read when it returns.
void write_staged(
    memory_pool pool, device_queue& queue, void* block, const void* from, std::size_t bytes);

/// The caller sleeps until all is in `to`.
void read_staged(
    memory_pool pool, device_queue& queue, void* to, const void* block, std::size_t bytes);

}  // namespace troupe::runtime
