// The failure detector of one process: finds lanes and actors that hang.
//
// It checks the lane board four times per suspicion timeout. On the first timeout it logs the wait
// graph once and reports the root to the node. It reports a hanging node or supervisor to the
// front. It has its own thread, so it also runs when hanging actors hold every thread of the actor
// system.
//
//   HANG-2  A run does not stall for lack of threads: when hanging actors have left one thread, the
//           process ends with an error.
//   HANG-4  A run does not stall behind a hanging front: it ends with an error.
//   HANG-5  A run of several processes does not stall when every member of every process waits, for
//           example after a lost message. Each watch reports a still process to its node. The
//           supervisor acts when all processes are still.

#pragma once

#include "actors/host/shared_resources.hpp"
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

/// Name in `suspected` and `taken_for_dead` when every member of the process waits (HANG-5).
inline constexpr const char* everything = "everything";

/// Receivers of the reports.
struct watch_settings {
  double suspicion = 0;  ///< seconds
  messages::node_actor node = {};
  messages::front_actor front = {};  ///< null: the node is not replaced
  /// Threads shared by actors; 0: each actor has its own (HANG-2).
  std::size_t threads = 0;
  /// Called on the watch's thread when no actor can recover: ends the process, or the run.
  std::function<void(const std::string& why)> give_up = {};
};

class hang_watch_state {
 public:
  static constexpr const char* name = "hang_watch";

  explicit hang_watch_state(messages::hang_watch_actor::pointer self) : self_(self) {}

  void start(watch_settings told, std::shared_ptr<const shared_resources> context);
  void look(const messages::look_at_lanes& x);

 private:
  void tell(const messages::suspected& x);
  void look_at_threads();
  void look_at_everything(const std::vector<runtime::board_entry>& all, std::uint64_t now_ns);

  messages::hang_watch_actor::pointer self_;
  watch_settings told_;
  std::shared_ptr<const shared_resources> context_;
  std::unique_ptr<runtime::hang_judge> judge_;
  std::unique_ptr<runtime::stillness> still_;  ///< null in single-process runs
  int looks_at_last_ = 0;                      ///< consecutive checks with one thread left
  bool gave_up_ = false;
};

messages::hang_watch_actor::behavior_type hang_watch(
    messages::hang_watch_actor::stateful_pointer<hang_watch_state> self,
    watch_settings told,
    std::shared_ptr<const shared_resources> context);

/// Spawns the watch if recovery is on and the context asks for it; else returns null. An exit
/// message ends it.
messages::hang_watch_actor watch_for_hangs(caf::actor_system& home,
                                           const std::shared_ptr<const shared_resources>& context,
                                           const runtime::recovery_settings& recovery,
                                           watch_settings told);

}  // namespace troupe::actors
