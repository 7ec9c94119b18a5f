// The front actor: keeps a node and a supervisor running in its process. A dead or hanging one is
// replaced; its replacement continues from the ledger. The supervisor that ended the job reports
// how.
//
// The watch beside it (node/hang_watch.hpp) finds hung actors. They are left behind: they are told
// to end when they run again, and messages of their older epoch are ignored. This actor itself
// cannot be replaced; if it hangs, the watch ends the run (HANG-4).
//
//   FRONT-1  Only the current supervisor reports how the job ended; a supervisor that was left
//            behind is ignored.

#pragma once

#include "actors/host/context.hpp"
#include "actors/job/run.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::actors {

/// A supervisor of an earlier process that is gone.
struct lost_process {
  std::uint64_t noticed_ns = 0;  ///< by the clock of the actors
};

class front_state {
 public:
  static constexpr const char* name = "front";

  explicit front_state(messages::front_actor::pointer self) : self_(self) {}

  void start(messages::job_description told,
             std::shared_ptr<const node_context> context,
             std::function<void(const outcome&)> ended,
             std::optional<lost_process> before);
  ~front_state();

  void receive(const messages::job_over& x);
  void receive(const messages::suspected& x);
  void receive(const messages::drain& x);
  const std::shared_ptr<runtime::lane_board::place>& place() const { return place_; }
  const std::shared_ptr<const message_path>& path() const { return context_->messages; }

 private:
  void spawn_node();
  void spawn_supervisor();
  void stop_watch();
  void lose(const caf::down_msg& x);
  void lose_agent(const caf::error& reason);
  void replace(const std::string& who, const caf::error& reason);
  void shut_node_down();
  void end();

  messages::front_actor::pointer self_;
  std::shared_ptr<runtime::lane_board::place> place_;  ///< null: not watched
  messages::job_description told_;
  std::shared_ptr<const node_context> context_;
  std::function<void(const outcome&)> ended_;
  runtime::recovery_settings recovery_;
  messages::node_actor node_;
  messages::supervisor_actor supervisor_;
  messages::hang_watch_actor watch_;  ///< null: hung actors are not replaced
  succession after_;
  std::optional<std::string> drained_;  ///< an early end was requested
  std::optional<outcome> over_;         ///< the end that the supervisor reported
  caf::error cause_;                    ///< the first death among those being replaced
};

/// Calls `ended` when node and supervisor have ended for good or were left behind. If no actor of
/// the process can continue, another thread calls it. `before`: the lost process that left the
/// ledger, if any.
messages::front_actor::behavior_type front(
    messages::front_actor::stateful_pointer<front_state> self,
    messages::job_description told,
    std::shared_ptr<const node_context> context,
    std::function<void(const outcome&)> ended,
    std::optional<lost_process> before);

}  // namespace troupe::actors
