// The loader: serves micro-batches on demand. What it answers is a function of the request alone,
// so it has no state to lose.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

/// Serves from the data sets of its node. Ends where they cannot be read, naming the step that
/// wants them, unless that has not begun (DATA-3). `generation`: the newest when it was spawned.
messages::loader_actor::behavior_type loader(messages::loader_actor::pointer self,
                                             const std::shared_ptr<const node_context>& context,
                                             runtime::generation_id generation);

}  // namespace troupe::actors
