// The node, one per process: it owns the process's context, spawns workers on request, and ends
// generations.
//
// When a rank, the supervisor or the node itself dies, it releases every wait of the generation at
// once. State that outlives actors (estates, ledger, logs) is in its context.
//
// Ranks belong to a generation. Services (loader, keeper, checkpointer, shard writer, monitor,
// viewers) serve all generations of one supervisor. The death of a service releases no waits, and
// the supervisor replaces it.
//
//   NODE-1  A node refuses to spawn into a generation that is over.
//   NODE-2  A node reports the end of a generation after its actors and lanes have ended. Lanes
//           that hang or exceed the suspicion timeout are left behind, with a copy of what they may
//           still write to.
//   NODE-3  A replaced node that continues later does no harm. The actors that it had spawned have
//           ended, and those that it spawns now end at once. All nodes ignore orders of an epoch
//           older than the newest they know.

#pragma once

#include "actors/node/branch.hpp"
#include "actors/node/spawn_table.hpp"
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

  explicit node_state(messages::node_actor::pointer self) : self_(self), branch_(self) {}
  ~node_state();

  void start(std::shared_ptr<const node_context> context,
             std::shared_ptr<const spawn_table> recipes);
  template <class Request>
  caf::result<answer_to<Request>> spawn(const Request& x);
  caf::result<messages::viewer_spawned> spawn(const messages::spawn_viewer& x);
  caf::result<messages::generation_ended> end(const messages::end_generation& x);
  caf::result<messages::stored_found> find(const messages::find_stored& x) const;
  caf::result<messages::measured> measure(const messages::measure& x) const;
  void look_again(const messages::look_again& x);
  void suspect(const messages::suspected& x);
  void close_restored(const messages::all_restored& x);
  void use(const messages::use_branches& x);
  branch& in_tree() { return branch_; }
  void shut_down(const messages::shut_down& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  struct spawned_actor {
    caf::actor actor;
    runtime::generation_id generation = {};
    spawned_kind what = {};
    std::string name;
    /// Services only: once cancelled, the service publishes nothing more.
    runtime::cancel_token ends = {};
    std::shared_ptr<void> with_epoch = {};
  };

  /// True for messages of a superseded supervisor.
  bool is_of_the_past(runtime::generation_id x) const {
    return epoch_of(x) < epoch_of(std::max(generation_, ended_));
  }
  /// Empty if the actor may be spawned. Begins the generation if it is new.
  template <class Request>
  caf::error admit(const Request& x);
  void watch_root();
  void tell_root(const messages::taken_for_dead& x);
  /// Marks the message on the lane board until the result is destroyed.
  std::unique_ptr<runtime::lane_board::place::at_message> take_turn(const char* what) const;
  runtime::lane_board::place::waiting waits_for() const;
  /// Empty in single-process runs.
  group_registry::join_between_processes groups_between_processes(const opened_job& job) const;
  /// Releases all waits of the current generation at once.
  void release_generation();
  void lose(const caf::down_msg& x);
  void close();
  void stop_next();
  /// True if an actor ends with the generations up to `last`.
  bool ends_with(const spawned_actor& x, runtime::generation_id last) const;
  void answer_if_ended();

  messages::node_actor::pointer self_;
  std::shared_ptr<const node_context> context_;
  std::shared_ptr<const spawn_table> recipes_;
  std::shared_ptr<const opened_job> job_;  ///< the newest
  runtime::recovery_settings recovery_;
  runtime::generation_id generation_ = {};
  runtime::generation_id ended_ = {};  ///< newest generation that was ordered to end
  std::shared_ptr<group_registry> groups_;
  runtime::cancel_token
      services_;     ///< cancelled when the services of an epoch must stop publishing
  caf::actor root_;  ///< the supervisor: the first to send a request
  /// `hung_`: hanging members, by their names in living_registry; the node does not wait for them.
  /// `left_behind_`: members that hang or exceeded the timeout, as reported to the supervisor.
  std::set<std::pair<runtime::generation_id, std::string>> hung_, left_behind_;
  std::vector<spawned_actor> spawned_;                             ///< alive, in order of spawning
  std::shared_ptr<holdings> held_ = std::make_shared<holdings>();  ///< ends with this node
  struct ending {
    runtime::generation_id last = {};
    caf::typed_response_promise<messages::generation_ended> promise;
    caf::actor_clock::time_point deadline;
  };
  std::optional<ending> ending_;
  bool closing_ = false;
  branch branch_;
  std::shared_ptr<runtime::lane_board::place> place_;  ///< last: reads the members above
};

messages::node_actor::behavior_type node(messages::node_actor::stateful_pointer<node_state> self,
                                         std::shared_ptr<const node_context> context,
                                         std::shared_ptr<const spawn_table> recipes);

}  // namespace troupe::actors
