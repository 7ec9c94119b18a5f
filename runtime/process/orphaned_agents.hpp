// What is left of a run's host agents: children of this process, which has started them, or has
// come to them as their subreaper. A guard, an agent that has lost its guard, or whom an agent that
// was killed together with its guard had started.

#pragma once

#include <chrono>
#include <filesystem>

namespace troupe::runtime {

/// They end with all that they have started or adopted: are asked for `patience`, then killed and
/// waited for, no longer than `suspicion`. Nothing happens when there are none.
void end_agents_of(const std::filesystem::path& run,
                   std::chrono::milliseconds patience,
                   std::chrono::milliseconds suspicion);

}  // namespace troupe::runtime
