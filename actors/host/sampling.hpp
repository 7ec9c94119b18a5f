// Measures this process, for viewers.

#pragma once

#include "actors/host/monitor_resources.hpp"
#include "messages/control/sampling.hpp"

namespace troupe::actors {

/// Measures time, memory, transfers, and the current work of each actor and lane. Reads counters
/// and takes short locks. `now_ns`: time of the actor system's clock.
messages::measured sample_of(const monitor_resources& context, std::uint64_t now_ns);

}  // namespace troupe::actors
