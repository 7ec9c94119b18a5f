// Measures this process, for viewers.

#pragma once

#include "actors/host/context.hpp"
#include "messages/control/sampling.hpp"

namespace troupe::actors {

/// Measures time, memory, transfers, and the current work of each actor and lane. Reads counters
/// and takes short locks. `now_ns`: time of the actor system's clock.
messages::measured sample_of(const node_context& context, std::uint64_t now_ns);

}  // namespace troupe::actors
