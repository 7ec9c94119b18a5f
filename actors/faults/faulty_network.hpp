// A message network with injected faults: actors fail, hang or are slow when a message reaches or
// leaves them, and messages are delayed.
//
// The messages of a step show when an actor comes to a moment of it (planted_death.hpp):
//
//   stage         restore: before meet. forward, validate: before run_step. vote: before it sends
//                 vote. decided: before decision. updated: before it sends applied. acknowledged:
//                 after the handler that sent it. snapshot: before take_snapshot.
//   replica       as a stage; restore: before it sends ready; acknowledged: after applied was sent.
//   supervisor    restore: before it sends all_restored. forward, validate: before it sends
//                 run_step. vote, updated: before the last replica's vote or applied. decided:
//                 after decision was sent to all. acknowledged, save: after the last applied, or
//                 saved, before it sends to a non-watcher. snapshot: before it sends save.
//   checkpointer  snapshot: before save. save: before the message that completes the parts.
//   keeper        redeem: with the state's tickets (faulty_transport.hpp). acknowledged: after kept
//                 was sent.
//   shard_writer  save: between the two files of a rank.
//   monitor       acknowledged: before committed.
//   loader        forward: before request_batch.

#pragma once

#include "actors/faults/fault_injector.hpp"
#include "actors/support/message_network.hpp"
#include "messages/checkpoint/keeping.hpp"
#include "messages/protocol/handles.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace troupe::actors {

/// Shared by the actors of a process. Any thread.
class faulty_network final : public message_network {
 public:
  /// `inner` takes all decisions without faults; null: CAF does.
  faulty_network(std::shared_ptr<const fault_injector> faults,
                 std::shared_ptr<message_network> inner);
  ~faulty_network() override;

  std::optional<std::chrono::nanoseconds> transit(caf::actor_id from,
                                                  caf::actor_id to,
                                                  caf::actor_clock::time_point now) override;
  bool reaches(caf::actor_id from, caf::actor_id to) const override;
  caf::actor nowhere() override;
  bool watch(const caf::actor_addr& watcher, const caf::actor& watched) override;

  /// Names the actor; it can be killed by this name from now on.
  void introduce(const caf::actor& who, const std::string& name) override;
  bool arrives(const caf::local_actor& at, const message_view& what) override;
  void handled(const caf::local_actor& at, const message_view& what) override;
  void leaves(const caf::local_actor& from, const message_view& what) override;
  void left(const caf::local_actor& from, const message_view& what) override;

  /// The message with the state that a keeper redeems with these tickets; empty for other tickets.
  std::optional<messages::keep> kept_with(std::span<const runtime::ticket> tickets) const;
  /// Call it after a shard writer has written the first file of a rank, before the second.
  void come_between_files() const;

 private:
  struct member;
  struct known {
    member& state;
    std::string name;
  };
  known know(const caf::local_actor& x);
  void come_to(const std::string& who, std::uint64_t step, runtime::moment_of_step at) const;
  /// The first step after the actor's initial state.
  std::uint64_t start_of(const std::string& who) const;
  void note_start(const std::string& who, runtime::step_id source);

  void stage_receives(const known& me, const message_view& what) const;
  void replica_receives(const known& me, const message_view& what) const;
  void supervisor_receives(const known& me, const message_view& what) const;
  void supervisor_sends(const known& me, const message_view& what);
  void supervisor_runs(const known& me, const messages::run_step& x) const;
  void node_receives(const message_view& what);
  void checkpointer_receives(const known& me, const message_view& what) const;
  void service_receives(const known& me, const message_view& what);

  std::shared_ptr<const fault_injector> faults_;
  std::shared_ptr<message_network> inner_;
  mutable std::mutex mutex_;
  std::map<caf::actor_id, std::string> names_;
  std::map<caf::actor_id, std::unique_ptr<member>> members_;
  std::map<std::string, std::uint64_t> starts_;
  std::optional<messages::keep> keeping_;
  std::atomic<std::uint64_t> writing_ = 0;  ///< step of the newest write_shards
};

}  // namespace troupe::actors
