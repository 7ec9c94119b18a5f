// The loader: serves micro-batches on request. An answer depends only on the request, so the loader
// has no state to lose.

#pragma once

#include "actors/host/loader_resources.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

/// Serves from the data sets of its node. Ends when data cannot be read, with the step that needs
/// them in the reason, unless that step has not begun (DATA-3). `generation`: the newest one at the
/// spawn.
messages::loader_actor::behavior_type loader(messages::loader_actor::pointer self,
                                             const std::shared_ptr<const loader_resources>& context,
                                             runtime::generation_id generation);

}  // namespace troupe::actors
