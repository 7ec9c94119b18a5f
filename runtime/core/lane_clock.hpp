// The clock of a lane: steady, or virtual in a simulation.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// Nanoseconds on the clock of the current fiber, or else on the steady clock.
std::uint64_t lane_clock_ns();

}  // namespace troupe::runtime
