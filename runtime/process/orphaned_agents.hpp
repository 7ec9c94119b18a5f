// Ends children of this process that are left of a run's host agents: guards, agents without a
// guard, and processes of an agent that was killed together with its guard. This process started
// them, or inherited them as a subreaper.

#pragma once

#include <chrono>
#include <filesystem>

namespace troupe::runtime {

/// Ends these agents and all processes that they started or adopted. Asks for `patience`, then
/// kills them and waits for at most `suspicion`. Does nothing when there are none.
void end_agents_of(const std::filesystem::path& run,
                   std::chrono::milliseconds patience,
                   std::chrono::milliseconds suspicion);

}  // namespace troupe::runtime
