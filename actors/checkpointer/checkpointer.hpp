// The checkpointer: writes checkpoints beside the training, on its own thread. Each rank
// contributes a part: a shard of weights and a shard of moments.
//
// In one process it writes all parts itself. With several, each process that hosts ranks has a
// shard writer (shard_writer.hpp). The checkpointer collects the snapshots, orders the writes, and
// commits manifest and tracker file when all shards are durable.

#pragma once

#include "actors/checkpointer/collected_shards.hpp"
#include "actors/host/saver_resources.hpp"
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
             std::shared_ptr<const saver_resources> context,
             runtime::cancel_token token);
  void expect(const messages::save& x);
  void receive(const messages::snapshot& x);
  void use(const messages::use_shard_writer& x);
  void receive(const messages::shards_written& x);
  void receive(const messages::shards_refused& x);
  void abandon(const messages::abandon& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  using save_key = std::tuple<runtime::generation_id, runtime::step_id, std::uint64_t>;
  void write_if_complete(const save_key& which);
  void show_collected(std::uint64_t iteration) const;
  void write(const messages::save& order, const std::map<int, messages::snapshot>& given);
  void have_written(const messages::save& order, std::map<int, messages::snapshot> given);
  void commit_if_written();
  /// Throws io_error, also when another host leads the run: this older checkpoint would replace the
  /// newest one of that host.
  std::filesystem::path publish(runtime::checkpoint_writer& what,
                                runtime::checkpoint_manifest manifest) const;
  std::unique_ptr<runtime::checkpoint_writer> stage(const messages::save& order,
                                                    const std::string& by);
  /// Throws io_error when another host leads the run, or that is unknown.
  void require_to_lead() const;
  void tell_saved(const messages::save& order, const std::filesystem::path& folder);
  void fail(const messages::save& order, const std::string& why);
  void tell_abandoned(runtime::generation_id ended);
  void remove_older() const;

  messages::checkpointer_actor::pointer self_;
  messages::supervisor_actor supervisor_;
  std::string identity_;
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const saver_resources> context_;
  runtime::generation_id generation_ = {};  ///< newest; messages of older ones are dropped
  runtime::cancel_token token_;
  std::shared_ptr<void> presence_;  ///< a successor waits until nothing is written here
  std::map<save_key, messages::save> expected_;
  caf::actor_clock::time_point expected_at_ = {};
  std::map<save_key, std::map<int, messages::snapshot>> parts_;
  std::map<int, messages::shard_writer_actor> writers_;  ///< by process; null: dead
  struct saving {
    std::unique_ptr<runtime::checkpoint_writer> by;
    collected_shards shards;
  };
  std::optional<saving> saving_;                      ///< being written by other processes
  std::optional<runtime::generation_id> abandoning_;  ///< answered when they are done
  bool failed_ = false;                               ///< the newest save failed
  std::shared_ptr<runtime::lane_board::place> place_;
};

/// Spawn with caf::detached: writing blocks. After `token` is set, nothing becomes visible. A
/// failed save is reported by save_failed; earlier checkpoints stay intact. The fetched parts of
/// its snapshot are then released; the supervisor makes stages of other processes release the rest.
/// It serves all generations in turn, and forgets parts that the ranks had not handed over when
/// their generation ended.
messages::checkpointer_actor::behavior_type checkpointer(
    messages::checkpointer_actor::stateful_pointer<checkpointer_state> self,
    const messages::spawn_checkpointer& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const saver_resources> context,
    runtime::cancel_token token);

}  // namespace troupe::actors
