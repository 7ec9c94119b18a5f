// Host agents that are left of a run: their guards are children of this process, which has started
// them, or has come to them as their subreaper.

#pragma once

#include <chrono>
#include <filesystem>

namespace troupe::runtime {

/// They end with all that they have started: are asked for `patience`, then killed and waited for,
/// no longer than `suspicion`. Nothing happens when there are none.
void end_agents_of(const std::filesystem::path& run,
                   std::chrono::milliseconds patience,
                   std::chrono::milliseconds suspicion);

}  // namespace troupe::runtime
