// The node: one for each process. It holds what belongs to the process, spawns workers when told,
// and ends generations.
//
// It also cleans up: when a rank dies, or the supervisor, or the node itself, every wait of the
// generation is released at once. What outlives actors (estates, ledger, logs) is in its context.
//
// Ranks belong to a generation. Services (loader, keeper, checkpointer, shard writer, monitor,
// viewers) serve all generations of one supervisor: their death releases nobody, and it replaces
// them.
//
//   NODE-1  Nobody is spawned into a generation that is over: the request is refused.
//   NODE-2  A generation is told to have ended when its actors are gone and its lanes have ended,
//           or were left behind, as they hang or after the time of suspicion, with a copy of what
//           they might write to.
//   NODE-3  A node that was left behind as it hangs, and goes on later, harms nobody: what it had
//           spawned has ended in its place, whom it spawns then ends at once, and nobody obeys what
//           an older epoch than the one it was told of says.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/actor.hpp>
#include <caf/actor_clock.hpp>
#include <caf/result.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

class node_state {
 public:
  static constexpr const char* name = "node";

  explicit node_state(messages::node_actor::pointer self) : self_(self) {}
  ~node_state();

  void start(std::shared_ptr<const node_context> context);
  caf::result<messages::loader_spawned> spawn(const messages::spawn_loader& x);
  caf::result<messages::keeper_spawned> spawn(const messages::spawn_keeper& x);
  caf::result<messages::checkpointer_spawned> spawn(const messages::spawn_checkpointer& x);
  caf::result<messages::shard_writer_spawned> spawn(const messages::spawn_shard_writer& x);
  caf::result<messages::monitor_spawned> spawn(const messages::spawn_monitor& x);
  caf::result<messages::viewer_spawned> spawn(const messages::spawn_viewer& x);
  caf::result<messages::replica_spawned> spawn(const messages::spawn_replica& x);
  caf::result<messages::stage_spawned> spawn(const messages::spawn_stage& x);
  caf::result<messages::generation_ended> end(const messages::end_generation& x);
  caf::result<messages::stored_found> find(const messages::find_stored& x) const;
  void look_again(const messages::look_again& x);
  void suspect(const messages::suspected& x);
  void close_restored(const messages::all_restored& x);
  void shut_down(const messages::shut_down& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  enum class kind : std::uint8_t { rank, service };
  struct spawned_actor {
    caf::actor actor;
    runtime::generation_id generation = {};
    kind what = {};
    std::string name;
    runtime::cancel_token ends = {};  ///< of a service: nothing more of it becomes visible
    std::shared_ptr<void> with_epoch = {};
  };

  /// Of a supervisor that has a successor.
  bool is_of_the_past(runtime::generation_id x) const {
    return epoch_of(x) < epoch_of(std::max(generation_, ended_));
  }
  /// Empty: this actor may be spawned. Begins a generation that is new.
  template <class Request>
  caf::error admit(const Request& x);
  void watch_root();
  void tell_root(const messages::taken_for_dead& x);
  /// As a message on the board.
  std::unique_ptr<runtime::lane_board::place::at_message> take_turn(const char* what) const;
  runtime::lane_board::place::waiting waits_for() const;
  /// None: this process has no others.
  group_registry::join_between_processes groups_between_processes(
      runtime::process_map placed) const;
  /// Whatever waits in it is released at once.
  void release_generation();
  template <class Answer, class Handle>
  Answer answer(Handle spawned, kind what, std::string name);
  void lose(const caf::down_msg& x);
  void close();
  void stop_next();
  /// Whether an actor is to end with the generations until `last`.
  bool ends_with(const spawned_actor& x, runtime::generation_id last) const;
  void answer_if_ended();

  messages::node_actor::pointer self_;
  std::shared_ptr<const node_context> context_;
  std::shared_ptr<const opened_job> job_;  ///< of the newest order to end
  runtime::recovery_settings recovery_;
  runtime::generation_id generation_ = {};
  runtime::generation_id ended_ = {};  ///< the last that was told to end
  std::shared_ptr<group_registry> groups_;
  runtime::cancel_token
      services_;     ///< set when those of an epoch are to end: nothing more is saved
  caf::actor root_;  ///< the first to ask: the supervisor
  /// Who hangs, by the names under which they are in the registry of the living: nobody waits
  /// for them. And those of them, and others that were late, of whose leaving the supervisor was
  /// told.
  std::set<std::pair<runtime::generation_id, std::string>> hung_, left_behind_;
  std::vector<spawned_actor> spawned_;  ///< alive, in the order of their coming
  std::shared_ptr<holdings> held_ = std::make_shared<holdings>();  ///< what ends with it
  struct ending {
    runtime::generation_id last = {};
    caf::typed_response_promise<messages::generation_ended> promise;
    caf::actor_clock::time_point deadline;
  };
  std::optional<ending> ending_;
  bool closing_ = false;
  std::shared_ptr<runtime::lane_board::place> place_;  ///< last: it reads the others
};

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const node_context> context);

}  // namespace troupe::actors
