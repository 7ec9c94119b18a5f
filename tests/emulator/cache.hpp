// A model of the device's cache. It tells whether the operands of a product may be cached, from the
// bytes read and written since their last use.

#pragma once

#include "tests/emulator/cublaslt.hpp"

#include <cstddef>

namespace troupe::emulator {

constexpr std::size_t cache_bytes = 64 << 10;  ///< small, so that a test flushes it quickly

/// Records a write of `bytes` to other addresses.
void write_through_cache(std::size_t bytes);
/// Counts a product (control.hpp), and also whether one of its factors may be cached.
void count_product(const product& which);

}  // namespace troupe::emulator
