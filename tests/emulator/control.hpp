// What a test may change of the emulated machine in its own process. Elsewhere the environment does
// it: settings.hpp.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::emulator {

/// Of everything that is drawn from now on; streams that exist keep theirs.
void set_seed(std::uint64_t seed);

/// The longest sleep before a stream takes up an item, in microseconds.
void set_delay(std::uint64_t us);

/// Whether products and functions are as inexact as a device's from now on.
void set_coarse(bool coarse);

/// As TROUPE_EMULATED_FAULT; empty: none.
void plant_faults(const std::string& text);

/// What the process has asked of the runtime so far.
struct calls {
  std::uint64_t waits = 0;  ///< of a thread of the host, for an event, a stream or a device
  std::uint64_t launches = 0;
  std::uint64_t products = 0;       ///< by cuBLASLt
  std::uint64_t warm_products = 0;  ///< of which a factor may have been in the cache
};
calls calls_so_far();

/// Whether the host can read there now, asked without a fault.
bool host_can_read(const void* at);

}  // namespace troupe::emulator
