// The clock of a lane: steady, and virtual where the lane is simulated.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// Nanoseconds, by whoever runs this thread: its fiber, or the machine.
std::uint64_t lane_clock_ns();

}  // namespace troupe::runtime
