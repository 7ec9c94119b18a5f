// The node: one for each process. It holds what belongs to the process, spawns workers when told,
// and ends generations.
//
// It also cleans up: when the supervisor dies, or the node itself, every wait of the generation is
// released and every actor that it spawned is stopped.
//
//   NODE-1  Nobody is spawned into a generation that is over: the request is refused.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/actor.hpp>
#include <caf/result.hpp>
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

  void start(std::shared_ptr<const node_context> context);
  caf::result<messages::loader_spawned> spawn(const messages::spawn_loader& x);
  caf::result<messages::checkpointer_spawned> spawn(const messages::spawn_checkpointer& x);
  caf::result<messages::monitor_spawned> spawn(const messages::spawn_monitor& x);
  caf::result<messages::viewer_spawned> spawn(const messages::spawn_viewer& x);
  caf::result<messages::replica_spawned> spawn(const messages::spawn_replica& x);
  caf::result<messages::stage_spawned> spawn(const messages::spawn_stage& x);
  void close_restored(const messages::all_restored& x);
  void shut_down();

 private:
  /// Empty: this actor may be spawned. Begins a generation that is new.
  template <class Request>
  caf::error admit(const Request& x);
  void watch_root();
  /// Whatever waits in it is released at once.
  void end_generation();
  template <class Answer, class Handle>
  Answer answer(Handle spawned);
  void lose(const caf::down_msg& x);
  void stop_next();

  messages::node_actor::pointer self_;
  std::shared_ptr<const node_context> context_;
  runtime::generation_id generation_ = {};
  std::shared_ptr<group_registry> groups_;
  caf::actor root_;                  ///< the first to ask: the supervisor
  std::vector<caf::actor> spawned_;  ///< alive, in the order of their coming
  bool closing_ = false;
};

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const node_context> context);

}  // namespace troupe::actors
