// Releases the standing nodes of a run that has no successor.

#pragma once

#include "actors/process/launch_settings.hpp"

#include <filesystem>
#include <vector>

namespace troupe::actors {

/// Tells the nodes that serve this run, or hold its processes for a successor, to end the processes
/// and become free. Called when the supervisor process is gone and none follows. A node that is not
/// reached frees itself after its hold time (standing_node.hpp). Blocks for at most three seconds.
/// Returns false when a thread is still blocked, for which the end of this process would have to
/// wait.
bool release_nodes(const std::vector<standing_node_address>& nodes,
                   const std::filesystem::path& run,
                   double suspicion,
                   bool insecure);

}  // namespace troupe::actors
