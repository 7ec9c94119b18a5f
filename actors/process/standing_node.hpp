// A standing node: started by hand, it waits on its host for a launcher that has a place for it
// (launcher.hpp) or needs a spare. A host agent starts the processes of its places, which host the
// ranks. So their deaths are ordinary process deaths. The node itself computes nothing and waits
// for the next job afterwards.
//
// When the launcher dies and a successor is expected, the job continues: the node's processes live
// on, held for the next launcher (docs/protocol/succession.md). When the supervisor's host is lost
// and no launcher comes, the node starts one from its copy of the run (run_copy.hpp).
//
//   STANDING-1  It obeys one launcher of a run at a time, that of the highest incarnation that has
//               come. Messages of an older one change nothing.

#pragma once

#include "actors/process/agent_link.hpp"
#include "actors/process/launch_settings.hpp"
#include "actors/process/run_copy.hpp"
#include "actors/support/message_path.hpp"
#include "messages/control/standing.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/result.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Maximum time that a standing node holds processes for the next launcher of a run. It covers the
/// start of the launcher's process, the joins, and waits for lost nodes.
inline std::chrono::milliseconds longest_hold(std::chrono::milliseconds suspicion) {
  return 2 * std::max<std::chrono::milliseconds>(3 * suspicion, std::chrono::seconds(15));
}

/// The text before a node's address in its log, and lines on the standard input of an attended
/// node: it ends at once, or if no run has begun.
inline constexpr const char *node_listens_at = " waits for jobs at ", *node_ends_at = "end",
                            *node_ends_unused_at = "end if unused";

struct standing_node_settings {
  std::filesystem::path run;  ///< its folder, held, with the credentials
  std::filesystem::path
      copies;              ///< folder for copies of runs, which outlive the node (run_copy.hpp)
  std::string address;     ///< numeric address at which others reach this machine
  std::uint16_t port = 0;  ///< 0: chosen by the system
  double suspicion = 10;   ///< seconds; runs with another value are refused
  bool insecure = false;   ///< see control_plane.hpp
  bool once = false;       ///< end after the first job
  std::function<void()> begins = {};  ///< called when it serves its first job
  std::vector<std::string> agent;     ///< as in launch_settings
  std::function<std::vector<std::string>(const node_program&)> node;
  /// Command that continues a run from a copy of its folder, replacing the supervisor process of
  /// that incarnation. Empty: none.
  std::function<std::vector<std::string>(const run_copy&)> successor = {};
};

class standing_node_state {
 public:
  static constexpr const char* name = "standing_node";

  explicit standing_node_state(messages::standing_node_actor::pointer self);

  void start(standing_node_settings settings);
  caf::result<messages::serving> receive(const messages::serve& x);
  void receive(const messages::start_node& x);
  void receive(const messages::kill_node& x);
  void receive(const messages::kill_agent& x);
  void receive(const messages::dismiss& x);
  void receive(const messages::agent_told& x);
  void receive(const messages::hold_is_over& x);
  void receive(const messages::keep_run& x);
  messages::ledger_kept receive(const messages::keep_ledger& x);
  void receive(const messages::succeed_here& x);
  void receive(const messages::successor_ended& x);
  /// The first call ends all started processes, the second kills the agent.
  void receive(const messages::shut_down& x);

 private:
  std::chrono::milliseconds patience() const;
  /// Why it does not serve that launcher, ever or at the moment; empty: it does.
  std::string unfit_for(const messages::serve& x) const;
  std::string superseded_by(const messages::serve& x) const;
  std::string taken_from(const messages::serve& x) const;
  void turn_next_away(const std::string& why);
  bool succeeds(const messages::serve& x) const;
  messages::serving serve(const messages::serve& x);
  caf::result<messages::serving> release(const messages::serve& x);
  caf::result<messages::serving> take_over(const messages::serve& x);
  /// Answers the launcher that has taken over, once no start is pending.
  void tell_who_runs();
  void lose(const caf::down_msg& x);
  bool is_from_launcher() const;
  void tell(messages::agent_told x);
  void tell(const runtime::agent_answer& x);
  void note(const runtime::agent_answer& x);
  void end_job();
  void be_free();

  // standing_succession.cpp:
  void hold();
  void try_again();
  void succeed_later(std::chrono::milliseconds pause);
  void start_successor();
  void forget_copy();

  messages::standing_node_actor::pointer self_;
  standing_node_settings settings_;
  std::shared_ptr<const message_path> path_;
  std::unique_ptr<agent_link> agent_;
  /// Requests for processes of the agent, by its names, that are not reported as started.
  std::map<std::string, std::uint64_t> starting_;
  /// The launcher it serves; empty: it is free.
  std::optional<messages::serve> job_;
  std::uint64_t jobs_ = 0;  ///< number of jobs served
  bool held_ = false;       ///< the launcher is gone; a successor may come
  std::optional<run_copy> copy_;
  /// The job and incarnation for which a successor was started from `copy_`; empty: it has ended.
  std::optional<messages::succeed_here> lent_for_;
  /// Copies still used by a process. Their folders keep their names until it ends: under a new name
  /// it could win a round that it has lost.
  std::vector<std::pair<std::optional<messages::succeed_here>, run_copy>> dropped_;
  std::shared_ptr<std::atomic<bool>>
      fits_;                   ///< a thread found that this host could continue the run
  bool refused_copy_ = false;  ///< a write to the copy failed, and this was logged
  int failures_ = 0;           ///< of successors started here
  bool ending_ = false;        ///< the job is over; its processes are being ended
  std::optional<caf::typed_response_promise<messages::serving>> taken_over_;
  /// The launcher to serve next.
  std::optional<messages::serve> next_;
  caf::typed_response_promise<messages::serving> answer_;
  bool over_ = false;
};

messages::standing_node_actor::behavior_type standing_node(
    messages::standing_node_actor::stateful_pointer<standing_node_state> self,
    standing_node_settings settings);

/// Waits for jobs until any thread calls the argument of `started`, or the first job has ended when
/// `once` is set. Returns the exit code. Throws input_error (credentials) and io_error (it cannot
/// listen).
int run_standing_node(const standing_node_settings& settings,
                      const std::function<void(const std::function<void()>& end)>& started);

}  // namespace troupe::actors
