// The shard writer: one for each process that hosts ranks, where there are several. It writes what
// they give to a checkpoint into the folder that the checkpointer has made, and tells that of each
// file which the manifest says of it. What it blocks in, the disk, is nobody's wait but its own: it
// has a thread of its own.
//
// Nothing of what it writes is visible before the checkpointer has committed it.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

class shard_writer_state {
 public:
  static constexpr const char* name = "shard_writer";

  explicit shard_writer_state(messages::shard_writer_actor::pointer self) : self_(self) {}

  void start(const messages::spawn_shard_writer& told,
             std::shared_ptr<const node_context> context,
             runtime::cancel_token token);
  void receive(const messages::write_shards& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }

 private:
  std::vector<messages::written_part> write(const messages::write_shards& x) const;
  void refuse(const messages::write_shards& x, bool gone, const std::string& why);

  messages::shard_writer_actor::pointer self_;
  int process_ = 0;
  std::shared_ptr<const node_context> context_;
  runtime::cancel_token token_;
  std::shared_ptr<void> presence_;  ///< a successor waits until nothing is written here any more
  std::shared_ptr<runtime::lane_board::place> place_;
};

/// Spawn with caf::detached: writing blocks. Once `token` is set nothing more is begun. It answers
/// each order, once: what a disk refuses, and what is gone with its generation, ends nobody.
messages::shard_writer_actor::behavior_type shard_writer(
    messages::shard_writer_actor::stateful_pointer<shard_writer_state> self,
    const messages::spawn_shard_writer& told,
    std::shared_ptr<const node_context> context,
    runtime::cancel_token token);

}  // namespace troupe::actors
