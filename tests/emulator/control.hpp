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

/// As TROUPE_EMULATED_FAULT; empty: none.
void plant_faults(const std::string& text);

/// Whether the host can read there now, asked without a fault.
bool host_can_read(const void* at);

}  // namespace troupe::emulator
