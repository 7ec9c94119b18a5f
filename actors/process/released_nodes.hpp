// Standing nodes of a run that nobody goes on with.

#pragma once

#include "actors/process/launch_settings.hpp"

#include <filesystem>
#include <vector>

namespace troupe::actors {

/// Those that serve the run in that folder, or hold its processes for a successor of its
/// supervisor's process, end them and are free, as none will come. The supervisor's process is
/// gone. Whom it cannot tell frees itself after the time for which it holds (standing_node.hpp).
/// Blocks for three seconds at most. False: a thread of it goes on that the end of this process
/// would have to wait for.
bool release_nodes(const std::vector<standing_node_address>& nodes,
                   const std::filesystem::path& run,
                   double suspicion,
                   bool insecure);

}  // namespace troupe::actors
