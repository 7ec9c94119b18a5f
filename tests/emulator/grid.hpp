// Runs all blocks of a launch on a pool of host threads.

#pragma once

#include "tests/emulator/block.hpp"

namespace troupe::emulator {

/// Returns when all blocks have ended, or after the first failure. The seed decides the order in
/// which blocks start.
std::optional<kernel_failure> run_grid(const kernel_call& call,
                                       dim3 grid,
                                       dim3 block,
                                       std::uint64_t seed);

}  // namespace troupe::emulator
