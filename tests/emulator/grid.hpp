// All blocks of a launch, on the few threads of the host that run blocks and nothing else.

#pragma once

#include "tests/emulator/block.hpp"

namespace troupe::emulator {

/// Returns when every block has ended, or after the first that failed. Blocks are begun in an order
/// that the seed draws.
std::optional<kernel_failure> run_grid(const kernel_call& call,
                                       dim3 grid,
                                       dim3 block,
                                       std::uint64_t seed);

}  // namespace troupe::emulator
