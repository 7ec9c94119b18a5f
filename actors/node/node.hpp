// The node: one for each process. It spawns workers when told, and ends generations.
//
// It is also who cleans up: when the supervisor dies, or the node itself, every wait of the
// generation is released and everybody it spawned is sent home.

#pragma once

#include "actors/node/resources.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

class node_state {
 public:
  static constexpr const char* name = "node";

  explicit node_state(messages::node_actor::pointer self) : self_(self) {}
  ~node_state();

  void start(std::shared_ptr<const resources> shared);
  caf::actor spawn(const messages::spawn& what, const caf::actor& by);
  void end_generation(runtime::generation_id which);
  void dismiss();

 private:
  caf::actor make(const messages::spawn& what, const caf::actor& by);
  void lose(const caf::down_msg& x);
  void send_next_home();

  messages::node_actor::pointer self_;
  std::shared_ptr<const resources> shared_;
  runtime::generation_id generation_ = {};
  std::shared_ptr<group_registry> groups_;
  caf::actor supervisor_;
  messages::loader_actor loader_;
  messages::checkpointer_actor checkpointer_;
  std::vector<caf::actor> spawned_;  ///< alive, in the order of their coming
  bool closing_ = false;
};

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const resources> shared);

}  // namespace troupe::actors
