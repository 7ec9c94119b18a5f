// Whether a process sees the folder of checkpoints, as all that write shards have to.

#pragma once

#include "messages/control/spawn.hpp"

#include <optional>
#include <string>

namespace troupe::actors {

/// Why the process that is asked for a shard writer cannot save, with its number and host; nothing:
/// it can, or it is not the first generation, in which alone that ends a run: later it is a disk
/// that refuses.
std::optional<std::string> obstacle_to_saving(const messages::spawn_shard_writer& x);

}  // namespace troupe::actors
