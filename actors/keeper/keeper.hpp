// The keeper: holds the newest states of another process's ranks, pulled while they compute the
// next step, so that none is lost with that process. It blocks in transfers, on a thread of its
// own; what it keeps outlives it (kept_states.hpp), and whatever its process keeps it gives back,
// of ranks of another process, too, that were kept here before. Every so many steps a thread of the
// process writes what it keeps to a disk of this host (local_states.hpp).

#pragma once

#include "actors/node/context.hpp"
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
             std::shared_ptr<const node_context> context,
             runtime::cancel_token token);
  void receive(const messages::keep& x);
  void receive(const messages::fetch_kept& x);
  void receive(const messages::store_kept& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }

 private:
  /// The steps that ended in the state that is given.
  runtime::iteration_range range_of(const messages::keep& x) const;
  /// KEEPER-2: of what came; false: it is not what was sealed, and its stage has been told.
  bool is_sound(const messages::keep& x, const runtime::rank_state& came);
  void tell_if_kept(runtime::generation_id generation, runtime::step_id step);
  /// KEEPER-3: of the ranks that a keeper here has kept before.
  void forget_others(const messages::keep& x);
  runtime::kept_states::state state_of(const messages::fetch_kept& x) const;

  messages::keeper_actor::pointer self_;
  messages::supervisor_actor supervisor_;
  int process_ = 0;  ///< whose ranks' states it keeps
  /// The newest that has given something, and the first step of which it did.
  runtime::generation_id given_in_ = {};
  runtime::step_id given_since_ = {};
  runtime::step_id told_to_store_ = {};  ///< the newest
  std::shared_ptr<const opened_job> job_;
  std::shared_ptr<const node_context> context_;
  runtime::cancel_token token_;
  std::shared_ptr<runtime::lane_board::place> place_;
};

messages::keeper_actor::behavior_type keeper(
    messages::keeper_actor::stateful_pointer<keeper_state> self,
    const messages::spawn_keeper& told,
    std::shared_ptr<const opened_job> job,
    std::shared_ptr<const node_context> context,
    runtime::cancel_token token);

}  // namespace troupe::actors
