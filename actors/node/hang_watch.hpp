// Looks, for the node of a process, for who hangs there: a lane, or an actor in a handler.
//
// It looks at the board every quarter of the time of suspicion. When somebody is late it prints who
// waits for whom, once, and tells the node who stands at the root. It has a thread of its own, so
// that it also looks when every thread of the actor system is held by one that hangs.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/device/wait_graph.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

class hang_watch_state {
 public:
  static constexpr const char* name = "hang_watch";

  explicit hang_watch_state(messages::hang_watch_actor::pointer self) : self_(self) {}

  void start(messages::node_actor node,
             std::shared_ptr<const node_context> context,
             double suspicion);
  void look(const messages::look_at_lanes& x);

 private:
  messages::hang_watch_actor::pointer self_;
  messages::node_actor node_;
  std::shared_ptr<const node_context> context_;
  double suspicion_ = 0;
  std::unique_ptr<runtime::hang_judge> judge_;
};

/// Spawn with caf::detached. `suspicion`: in seconds.
messages::hang_watch_actor::behavior_type hang_watch(
    messages::hang_watch_actor::stateful_pointer<hang_watch_state> self,
    messages::node_actor node,
    std::shared_ptr<const node_context> context,
    double suspicion);

}  // namespace troupe::actors
