// The front: keeps a node and a supervisor in its process. One that dies or hangs gets a successor,
// which goes on from the ledger; how the job ended it is told by the supervisor that ended it.
//
// Who hangs is found by the watch beside it (node/hang_watch.hpp), and is left behind: it is told
// to end when it goes on, and what it does until then is of an older epoch, which nobody obeys.
// Where this actor itself hangs nobody can replace it, and the watch ends the run (HANG-4).
//
//   FRONT-1  How the job ended is told by the supervisor that stands; one that was left behind has
//            nothing to say.

#pragma once

#include "actors/job/run.hpp"
#include "actors/node/context.hpp"
#include "actors/supervisor/supervisor.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::actors {

/// A supervisor that was in another process, which is gone.
struct lost_process {
  std::uint64_t noticed_ns = 0;  ///< by the actors' clock
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
  std::shared_ptr<runtime::lane_board::place> place_;  ///< null: nobody looks
  messages::job_description told_;
  std::shared_ptr<const node_context> context_;
  std::function<void(const outcome&)> ended_;
  runtime::recovery_settings recovery_;
  messages::node_actor node_;
  messages::supervisor_actor supervisor_;
  messages::hang_watch_actor watch_;  ///< null: nobody is replaced
  succession after_;
  std::optional<std::string> drained_;  ///< somebody asked for an early end
  std::optional<outcome> over_;         ///< the end that was meant
  caf::error cause_;                    ///< the first death of those that are being replaced
};

/// `ended` is called when node and supervisor are gone for good, or left behind; and where nothing
/// in the process can go on, by another thread. `before`: whose ledger that is; nothing:
/// there was none.
messages::front_actor::behavior_type front(
    messages::front_actor::stateful_pointer<front_state> self,
    messages::job_description told,
    std::shared_ptr<const node_context> context,
    std::function<void(const outcome&)> ended,
    std::optional<lost_process> before);

}  // namespace troupe::actors
