// The keeper: holds the newest states of another process's ranks, so that none is lost with that
// process. It pulls them while the ranks compute the next step.
//
// It blocks in transfers, on its own thread. Kept states outlive the keeper (kept_states.hpp). It
// serves every state that its process keeps, also of other processes kept here earlier. At an
// interval of steps, a thread of the process writes the kept states to a disk of this host
// (local_states.hpp).

#pragma once

#include "actors/host/keeper_resources.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <memory>

namespace troupe::actors {

class keeper_state {
 public:
  static constexpr const char* name = "keeper";

  explicit keeper_state(messages::keeper_actor::pointer self) : self_(self) {}

  void start(const messages::spawn_keeper& told,
             std::shared_ptr<const opened_job> job,
             std::shared_ptr<const keeper_resources> context,
             runtime::cancel_token token);
  void receive(const messages::keep& x);
  void receive(const messages::fetch_kept& x);
  void receive(const messages::store_kept& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  /// KEEPER-2. Returns false when the received state differs from the sealed one; its stage has
  /// been told.
  bool is_sound(const messages::keep& x, const runtime::rank_state& came);
  void tell_if_kept(runtime::generation_id generation, runtime::step_id step);
  /// KEEPER-3. Forgets ranks that a keeper in this process kept earlier.
  void forget_others(const messages::keep& x);
  /// The ranks of the process whose states it keeps.
  const std::vector<int>& ranks() const { return job_->placed.ranks_of(process_); }
  runtime::kept_states::state state_of(const messages::fetch_kept& x) const;

  messages::keeper_actor::pointer self_;
  messages::report_actor reports_to_;
  int process_ = 0;  ///< the process that it keeps states of
  /// The newest generation that gave a state, and its first step.
  runtime::generation_id given_in_ = {};
  runtime::step_id given_since_ = {};
  runtime::step_id told_to_store_ = {};  ///< newest request
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const keeper_resources> context_;
  runtime::cancel_token token_;
  std::shared_ptr<runtime::lane_board::place> place_;
};

messages::keeper_actor::behavior_type keeper(
    messages::keeper_actor::stateful_pointer<keeper_state> self,
    const messages::spawn_keeper& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const keeper_resources> context,
    runtime::cancel_token token);

}  // namespace troupe::actors
