// Ends what is left of a run's host agents after a kill, and removes the files and segments that
// such an agent leaves.

#pragma once

#include "runtime/process/process_id.hpp"

#include <chrono>
#include <filesystem>

namespace troupe::runtime {

/// Ends the agents among this process's children, and all processes that they started or adopted.
/// This process started them, or inherited them as a subreaper. Asks for `patience`, then kills
/// them and waits for at most `suspicion`.
void end_agents_of(const std::filesystem::path& run,
                   std::chrono::milliseconds patience,
                   std::chrono::milliseconds suspicion);

/// Kills each running process that an agent of this host has started for the run, with its group,
/// and the agent itself. Only for the owner of the run's folder: a later run may use it.
void kill_parts_of(const std::filesystem::path& run);
/// Kills that process, and what is left of its group. Logs a failure.
void kill_with_group(const process_id& x);

}  // namespace troupe::runtime
