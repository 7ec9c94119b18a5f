// The replica: speaks for its stages as one.
//
// It has its stages spawned, introduces them to each other, passes orders down, merges what comes
// up in the order of the pipeline, and ends when one of them ends.

#pragma once

#include "actors/node/resources.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

struct replica_seat {
  runtime::generation_id generation = {};
  int replica = 0;
  messages::node_actor node;
  messages::supervisor_actor supervisor;
  messages::loader_actor loader;
  messages::checkpointer_actor checkpointer;
};

class replica_state {
 public:
  static constexpr const char* name = "replica";

  explicit replica_state(messages::replica_actor::pointer self) : self_(self) {}

  void start(replica_seat seat, std::shared_ptr<const resources> shared);
  template <class Order>
  void pass_down(const Order& x);
  void receive(const messages::ready& x);
  void receive(const messages::vote& x);
  void receive(const messages::applied& x);

 private:
  /// Stages are counted pipeline rank first: part * tensor + t.
  int stages() const { return shared_->stages() * shared_->tensor(); }
  void spawned(int stage, const caf::actor& actor);
  void introduce();
  void lose(const caf::down_msg& x);

  messages::replica_actor::pointer self_;
  std::string who_;
  replica_seat seat_;
  std::shared_ptr<const resources> shared_;
  std::vector<caf::actor> stages_;
  int spawned_ = 0;
  std::vector<messages::ready> ready_;
  std::vector<messages::vote> votes_;
  std::vector<messages::applied> applied_;
};

messages::replica_actor::behavior_type replica(
    messages::replica_actor::stateful_pointer<replica_state> self,
    replica_seat seat,
    std::shared_ptr<const resources> shared);

}  // namespace troupe::actors
