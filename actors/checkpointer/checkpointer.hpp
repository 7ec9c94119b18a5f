// The checkpointer: writes snapshots beside the training, on a thread of its own. A part is what
// one rank owns: a shard of weights and a shard of moments.

#pragma once

#include "actors/node/resources.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/checkpoint/checkpoint.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::actors {

class checkpointer_state {
 public:
  static constexpr const char* name = "checkpointer";

  explicit checkpointer_state(messages::checkpointer_actor::pointer self) : self_(self) {}

  void start(messages::supervisor_actor supervisor,
             runtime::generation_id generation,
             std::shared_ptr<const resources> shared,
             runtime::cancel_token token);
  void expect(const messages::save& x);
  void receive(const messages::snapshot& x);

 private:
  void write_if_complete(runtime::step_id step);
  void remove_older() const;
  runtime::shard_record write(runtime::checkpoint_writer& by,
                              const char* kind,
                              int part,
                              int parts,
                              const messages::fragments& arrays);

  messages::checkpointer_actor::pointer self_;
  messages::supervisor_actor supervisor_;
  std::shared_ptr<const resources> shared_;
  runtime::generation_id generation_ = {};
  runtime::cancel_token token_;
  std::map<runtime::step_id, messages::save> expected_;
  std::map<runtime::step_id, std::map<int, messages::snapshot>> parts_;
};

/// Spawn with caf::detached: writing blocks. Ends with the reason when it cannot save; whatever was
/// saved before is intact.
messages::checkpointer_actor::behavior_type checkpointer(
    messages::checkpointer_actor::stateful_pointer<checkpointer_state> self,
    messages::supervisor_actor supervisor,
    runtime::generation_id generation,
    std::shared_ptr<const resources> shared,
    runtime::cancel_token token);

}  // namespace troupe::actors
