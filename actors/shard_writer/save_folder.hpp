// Checks that a process sees the checkpoint folder, as all shard writers must.

#pragma once

#include "messages/control/spawn.hpp"

#include <optional>
#include <string>

namespace troupe::actors {

/// Why the process of a new shard writer cannot save, with its number and host. Empty if it can, or
/// after the first generation. Only in the first generation does this end a run; later it counts as
/// a failed disk.
std::optional<std::string> obstacle_to_saving(const messages::spawn_shard_writer& x);

}  // namespace troupe::actors
