// Lets a test change the emulated machine in its own process. The environment sets the initial
// values: settings.hpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::emulator {

/// Sets the seed of all random choices from now on. Existing streams keep theirs.
void set_seed(std::uint64_t seed);

/// Sets the longest sleep of a stream before each item, in microseconds.
void set_delay(std::uint64_t us);

/// With true, products and functions are as inexact as on a device from now on.
void set_coarse(bool coarse);

/// Plants faults in the format of TROUPE_EMULATED_FAULT; empty: none.
void plant_faults(const std::string& text);

/// Calls of this process to the CUDA runtime so far.
struct calls {
  std::uint64_t waits = 0;  ///< of host threads, for an event, a stream or a device
  std::uint64_t launches = 0;
  std::uint64_t products = 0;       ///< by cuBLASLt
  std::uint64_t warm_products = 0;  ///< products with a factor that may have been cached
};
calls calls_so_far();

/// True if the host can read this address now. Never faults.
bool host_can_read(const void* at);

}  // namespace troupe::emulator
