// The cache between kernels and the memory of the emulated device, as far as a product's operands
// may lie in it: by what has been read and written since.

#pragma once

#include "tests/emulator/cublaslt.hpp"

#include <cstddef>

namespace troupe::emulator {

constexpr std::size_t cache_bytes = 64 << 10;  ///< so little that nobody waits for its emptying

/// So many bytes are written to other places.
void write_through_cache(std::size_t bytes);
/// A product is asked for: counted (control.hpp), with whether one of its factors may be there.
void count_product(const product& which);

}  // namespace troupe::emulator
