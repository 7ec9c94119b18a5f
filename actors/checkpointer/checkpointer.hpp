// The checkpointer: makes checkpoints of snapshots beside the training, on a thread of its own. A
// part is what one rank owns: a shard of weights and a shard of moments.
//
// In one process it writes all parts. Where ranks stand in several, each of these has a shard
// writer (shard_writer.hpp): then it is told the snapshots, orders each process's to be written
// there, and commits the manifest and the tracker when all of them are durable.

#pragma once

#include "actors/checkpointer/collected_shards.hpp"
#include "actors/node/context.hpp"
#include "actors/shard_writer/rank_files.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/checkpoint/checkpoint.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::actors {

class checkpointer_state {
 public:
  static constexpr const char* name = "checkpointer";

  explicit checkpointer_state(messages::checkpointer_actor::pointer self) : self_(self) {}

  void start(const messages::spawn_checkpointer& told,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const node_context> context,
             runtime::cancel_token token);
  void expect(const messages::save& x);
  void receive(const messages::snapshot& x);
  void use(const messages::use_shard_writer& x);
  void receive(const messages::shards_written& x);
  void receive(const messages::shards_refused& x);
  void abandon(const messages::abandon& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }

 private:
  using save_key = std::tuple<runtime::generation_id, runtime::step_id, std::uint64_t>;
  void write_if_complete(const save_key& which);
  void write(const messages::save& order, const std::map<int, messages::snapshot>& given);
  void have_written(const messages::save& order, std::map<int, messages::snapshot> given);
  void commit_if_written();
  /// Throws io_error, also where another host goes on with the run: an older checkpoint would take
  /// the place of its newest.
  std::filesystem::path publish(runtime::checkpoint_writer& what,
                                runtime::checkpoint_manifest manifest) const;
  std::unique_ptr<runtime::checkpoint_writer> stage(const messages::save& order,
                                                    const std::string& by);
  /// Throws io_error: another host leads the run, or it is not known.
  void require_to_lead() const;
  void tell_saved(const messages::save& order, const std::filesystem::path& folder);
  void fail(const messages::save& order, const std::string& why);
  void tell_abandoned(runtime::generation_id ended);
  void remove_older() const;

  messages::checkpointer_actor::pointer self_;
  messages::supervisor_actor supervisor_;
  std::string identity_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const node_context> context_;
  runtime::generation_id generation_ = {};  ///< the newest: what is older is dropped
  runtime::cancel_token token_;
  std::shared_ptr<void> presence_;  ///< a successor waits until nothing is written here any more
  std::map<save_key, messages::save> expected_;
  std::map<save_key, std::map<int, messages::snapshot>> parts_;
  std::map<int, messages::shard_writer_actor> writers_;  ///< of each process; null: it is dead
  struct saving {
    std::unique_ptr<runtime::checkpoint_writer> by;
    collected_shards shards;
  };
  std::optional<saving> saving_;                      ///< what other processes are writing
  std::optional<runtime::generation_id> abandoning_;  ///< is answered when they have
  bool failed_ = false;                               ///< the newest could not be written
  std::shared_ptr<runtime::lane_board::place> place_;
};

/// Spawn with caf::detached: writing blocks. Once `token` is set nothing becomes visible any more.
/// What cannot be written is told with save_failed; what was saved before is intact. What of its
/// snapshot was fetched is free again then, and the supervisor has stages of other processes free
/// the rest. It serves one generation after the other: what the ranks of one had not handed over
/// when they ended it forgets.
messages::checkpointer_actor::behavior_type checkpointer(
    messages::checkpointer_actor::stateful_pointer<checkpointer_state> self,
    const messages::spawn_checkpointer& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const node_context> context,
    runtime::cancel_token token);

}  // namespace troupe::actors
