// The end of a process's actor system.

#pragma once

#include "actors/host/stage_resources.hpp"

#include <caf/fwd.hpp>

namespace troupe::actors {

/// Waits for the actors and lanes of this process after its node has ended; for hung ones at most
/// the failure detector's timeout. Returns false, with a warning, when some hang. The process must
/// then end by std::_Exit, since they still use what a normal exit destroys.
bool have_all_ended(caf::actor_system& system,
                    const stage_resources& context,
                    const runtime::recovery_settings& recovery);

}  // namespace troupe::actors
