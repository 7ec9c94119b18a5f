// The shard writer: writes the checkpoint parts of its process's ranks into the folder that the
// checkpointer has made, and reports what the manifest needs. There is one per process that hosts
// ranks, when there are several processes. It has its own thread, so no other actor waits for the
// disk.
//
// Its files become visible when the checkpointer commits them.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

class shard_writer_state {
 public:
  static constexpr const char* name = "shard_writer";

  explicit shard_writer_state(messages::shard_writer_actor::pointer self) : self_(self) {}

  void start(const messages::spawn_shard_writer& told,
             std::shared_ptr<const shared_resources> context,
             runtime::cancel_token token);
  void receive(const messages::write_shards& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  std::vector<messages::written_part> write(const messages::write_shards& x) const;
  void refuse(const messages::write_shards& x, bool gone, const std::string& why);

  messages::shard_writer_actor::pointer self_;
  int process_ = 0;
  std::shared_ptr<const shared_resources> context_;
  runtime::cancel_token token_;
  std::shared_ptr<void> presence_;  ///< a successor waits until nothing is written here
  std::shared_ptr<runtime::lane_board::place> place_;
};

/// Spawn with caf::detached: writing blocks. After `token` is set, no new file is begun. Answers
/// each request once. A failed disk, or parts that are gone with their generation, do not end it.
messages::shard_writer_actor::behavior_type shard_writer(
    messages::shard_writer_actor::stateful_pointer<shard_writer_state> self,
    const messages::spawn_shard_writer& told,
    std::shared_ptr<const shared_resources> context,
    runtime::cancel_token token);

}  // namespace troupe::actors
