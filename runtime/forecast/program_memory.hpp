// Memory of a process besides its tensors.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// Forecast of the bytes that code, libraries and threads of a process with so many workers take.
/// Measured on x86-64 (GCC 12, -O2): resident memory of runs of a tiny model with 1 and 8 workers,
/// minus their tensors. The order of samples and a device's driver come on top.
constexpr std::int64_t program_memory(int workers) {
  return 54'000'000 + std::int64_t(workers) * 1'700'000;
}

}  // namespace troupe::runtime
