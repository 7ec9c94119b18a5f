// Copies between pageable host memory and a device, through a small pinned buffer.

#pragma once

#include "runtime/device/device.hpp"
#include "runtime/device/memory_pool.hpp"

#include <cstddef>

namespace troupe::runtime {

/// Enqueues the copy behind earlier work of `queue`, which `pool` serves. `from` has been read on
/// return.
void write_staged(
    memory_pool pool, device_queue& queue, void* block, const void* from, std::size_t bytes);

/// Sleeps until all bytes are in `to`.
void read_staged(
    memory_pool pool, device_queue& queue, void* to, const void* block, std::size_t bytes);

}  // namespace troupe::runtime
