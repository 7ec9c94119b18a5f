// Standing nodes of a run that nobody goes on with.

#pragma once

#include "actors/process/launch_settings.hpp"

#include <filesystem>
#include <vector>

namespace troupe::actors {

/// Those that hold processes of the run in that folder for a successor of its supervisor's process
/// end them and are free, as none will come. The supervisor's process is gone. Whom it cannot tell
/// frees itself after the time for which it waits (standing_node.hpp). Blocks for some seconds at
/// most.
void release_nodes(const std::vector<standing_node_address>& nodes,
                   const std::filesystem::path& run,
                   double suspicion,
                   bool insecure);

}  // namespace troupe::actors
