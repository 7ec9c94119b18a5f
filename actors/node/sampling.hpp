// A sample of a process, for viewers.

#pragma once

#include "actors/node/context.hpp"
#include "messages/control/sampling.hpp"

namespace troupe::actors {

/// Measures this process: time, memory, transfers, and what each actor and lane does. Reads
/// counters and takes short locks. `now_ns`: on the clock of the actors.
messages::measured sample_of(const node_context& context, std::uint64_t now_ns);

}  // namespace troupe::actors
