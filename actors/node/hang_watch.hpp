// Looks, for who keeps the node of a process, for who hangs there: a lane, or an actor in a
// handler.
//
// It looks at the board every quarter of the time of suspicion. When somebody is late it prints who
// waits for whom, once, and tells the node who stands at the root; of the node itself and of a
// supervisor it tells the front. It has a thread of its own, so that it also looks when every
// thread of the actor system is held by one that hangs.
//
//   HANG-2  A run does not stand still for want of threads: when those that hang have left one
//           thread to the others, it ends with that said.
//   HANG-4  A run does not stand still behind a front that hangs: it ends with that said.
//   HANG-5  A run of several processes does not stand still where no member of any process works,
//           for example after a message was lost between two: each watch tells its node that
//           nothing moves in its process, and the supervisor acts when that holds for all.

#pragma once

#include "actors/node/context.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/device/stillness.hpp"
#include "runtime/device/wait_graph.hpp"

#include <caf/actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors {

/// In `suspected` and `taken_for_dead`: every member of the process waits (HANG-5).
inline constexpr const char* everything = "everything";

/// Whom a watch tells.
struct watch_settings {
  double suspicion = 0;  ///< seconds
  messages::node_actor node = {};
  messages::front_actor front = {};  ///< null: nobody replaces the node here
  std::size_t threads = 0;           ///< that actors share; 0: they have none (HANG-2)
  /// Called on the thread of the watch, for what no actor can mend: ends the process, or the run.
  std::function<void(const std::string& why)> give_up = {};
};

class hang_watch_state {
 public:
  static constexpr const char* name = "hang_watch";

  explicit hang_watch_state(messages::hang_watch_actor::pointer self) : self_(self) {}

  void start(watch_settings told, std::shared_ptr<const node_context> context);
  void look(const messages::look_at_lanes& x);

 private:
  void tell(const messages::suspected& x);
  void look_at_threads();
  void look_at_everything(const std::vector<runtime::board_entry>& all, std::uint64_t now_ns);

  messages::hang_watch_actor::pointer self_;
  watch_settings told_;
  std::shared_ptr<const node_context> context_;
  std::unique_ptr<runtime::hang_judge> judge_;
  std::unique_ptr<runtime::stillness> still_;  ///< null: the run has one process
  int looks_at_last_ = 0;                      ///< in a row, at which one thread was left
  bool gave_up_ = false;
};

messages::hang_watch_actor::behavior_type hang_watch(
    messages::hang_watch_actor::stateful_pointer<hang_watch_state> self,
    watch_settings told,
    std::shared_ptr<const node_context> context);

/// Spawns it, where the job recovers and the context wants it; else null. It lives until it is sent
/// an exit message.
messages::hang_watch_actor watch_for_hangs(caf::actor_system& home,
                                           const std::shared_ptr<const node_context>& context,
                                           const runtime::recovery_settings& recovery,
                                           watch_settings told);

}  // namespace troupe::actors
