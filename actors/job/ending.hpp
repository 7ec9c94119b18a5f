// How the actor system of a process ends.

#pragma once

#include "actors/node/context.hpp"

#include <caf/fwd.hpp>

namespace troupe::actors {

/// Waits for the actors and lanes of this process, whose node has ended; for those that hang, no
/// longer than the time of suspicion. False: some hang, and the process has to end without them
/// (std::_Exit), since they still use what its end takes down. Tells so.
bool have_all_ended(caf::actor_system& system,
                    const node_context& context,
                    const runtime::recovery_settings& recovery);

}  // namespace troupe::actors
