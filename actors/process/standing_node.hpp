// A node that was started by hand: it stands on its host, waits for a launcher that has a place for
// it (launcher.hpp) or wants a spare, and has a host agent start the processes of the places that
// it is told, which host the ranks. So the death of such a process is one like any other, and this
// one, which computes nothing, waits for the next job afterwards.
//
// The death of the launcher is not the end of its job where another process succeeds that
// launcher's: whom this node has started lives on, held for the launcher that comes next
// (docs/protocol/succession.md). Where the host of the supervisor is gone, and no such launcher
// comes, one is started here, from the copy of the run that this node was given (run_copy.hpp).
//
//   STANDING-1  It obeys one launcher of a run at a time, the one of the highest incarnation that
//               has come: an older one that is heard again changes nothing.

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
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// How long at most a standing node holds whom it has started for the next launcher of a run, whose
/// process has to be started, as those are that join; and which may have to wait for nodes that are
/// gone.
inline std::chrono::milliseconds longest_hold(std::chrono::milliseconds suspicion) {
  return 2 * std::max<std::chrono::milliseconds>(3 * suspicion, std::chrono::seconds(15));
}

struct standing_node_settings {
  std::filesystem::path run;     ///< its folder, held, with the credentials
  std::filesystem::path copies;  ///< where copies of runs are put, which outlive it (run_copy.hpp)
  std::string address;           ///< numeric, of this machine: where others reach it
  std::uint16_t port = 0;        ///< 0: the system chooses
  double suspicion = 10;         ///< seconds; runs that have another are refused
  bool insecure = false;         ///< control_plane.hpp
  bool once = false;             ///< it ends after its first job
  std::vector<std::string> agent;  ///< as of launch_settings
  bool outlived = false;           ///< the same
  std::function<std::vector<std::string>(const node_program&)> node;
  /// What goes on with a run from a copy of its folder, in the place of that incarnation of the
  /// supervisor's process; empty: nothing does.
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
  /// The first time whoever was started is ended, the second time the agent is killed.
  void receive(const messages::shut_down& x);

 private:
  struct started {
    runtime::process_started it;
    messages::process_name who = {};
  };

  std::chrono::milliseconds patience() const;
  /// Why it never serves that launcher, or not while it serves another; empty: it does.
  std::string unfit_for(const messages::serve& x) const;
  std::string superseded_by(const messages::serve& x) const;
  std::string taken_from(const messages::serve& x) const;
  void turn_next_away(const std::string& why);
  bool succeeds(const messages::serve& x) const;
  messages::serving serve(const messages::serve& x);
  caf::result<messages::serving> release(const messages::serve& x);
  caf::result<messages::serving> take_over(const messages::serve& x);
  /// To whom has taken over, when nobody is on the way any more of whom it would not know.
  void tell_who_runs();
  void lose(const caf::down_msg& x);
  bool is_from_launcher() const;
  void tell(messages::agent_told x);
  void tell(const runtime::agent_answer& x);
  /// False: the launcher is not to hear it.
  bool note(const runtime::agent_answer& x);
  bool adopt_again();
  bool is_being_killed(const std::string& name) const;
  void ask_to_start(const std::string& name);
  void start_those_behind();
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
  /// Whom the agent has started and who is not known to have ended, by its name of them; of whom it
  /// has not said yet that he was; and what was asked to kill them.
  std::map<std::string, started> running_;
  std::map<std::string, messages::start_node> starting_;
  std::map<std::string, runtime::signal_process> killed_;
  /// Of those that are starting: for whom the agent is asked when the one before, which is being
  /// killed, has ended, as it has one of a name at a time.
  std::set<std::string> behind_;
  /// Of which launcher; none: it is free.
  std::optional<messages::serve> job_;
  std::uint64_t jobs_ = 0;  ///< that it has served
  bool held_ = false;       ///< its launcher is gone, and another one may go on with it
  std::optional<run_copy> copy_;
  /// Whose launcher the process that was started from `copy_` is to succeed; none: it has ended.
  std::optional<messages::succeed_here> lent_for_;
  /// Copies that a process has yet, or looks at: their folders keep their names until it has ended,
  /// as in the next copy it would win what is decided after it has lost.
  std::vector<std::pair<std::optional<messages::succeed_here>, run_copy>> dropped_;
  std::shared_ptr<std::atomic<bool>>
      fits_;                   ///< this host could go on with the run, as a thread saw
  bool refused_copy_ = false;  ///< the disk has, and that was told
  int failures_ = 0;           ///< of successors that were started here
  bool ending_ = false;        ///< the job is over, and its processes are being ended
  std::optional<caf::typed_response_promise<messages::serving>> taken_over_;
  /// Who wants to be next.
  std::optional<messages::serve> next_;
  caf::typed_response_promise<messages::serving> answer_;
  bool over_ = false;
};

messages::standing_node_actor::behavior_type standing_node(
    messages::standing_node_actor::stateful_pointer<standing_node_state> self,
    standing_node_settings settings);

/// Waits for jobs until `started`'s argument is called, by any thread, or once is enough. Returns
/// the exit code. Throws input_error (credentials) and io_error: it cannot listen there.
int run_standing_node(const standing_node_settings& settings,
                      const std::function<void(const std::function<void()>& end)>& started);

}  // namespace troupe::actors
