// The loader: serves micro-batches on demand. What it answers is a function of the request alone,
// so it has no state to lose.

#pragma once

#include "actors/node/resources.hpp"
#include "messages/protocol/actors.hpp"

#include <memory>

namespace troupe::actors {

messages::loader_actor::behavior_type loader(messages::loader_actor::pointer self,
                                             const std::shared_ptr<const resources>& shared);

}  // namespace troupe::actors
