// What becomes of the processes of a job: (state, event) → actions, without actors, sockets and
// clock. The launcher (launcher.hpp) carries the actions out. docs/protocol/rendezvous.md.
//
// What a process of the job goes through:
//
//   none -> starting -> connecting -> stands -> none
//           (asked of the agent)      (told)    (died)
//      any but none -> ending -> none, or starting again      (killed, and its death awaited)
//
// A place is started by a host agent: that of this host for all, or of a host for each. Agents are
// numbered from 0; of several those that have no place at first are spare. Where processes outlive
// their agent, the next one of its number adopts them. When its host is gone a place moves: its
// next incarnation is started by the first agent that has no place, where there is none by the one
// that has fewest; and back to one without a place, when such a host comes.
//
//   PROCESS-1  Only the newest incarnation of a process takes part: one that comes late is refused.
//   PROCESS-2  A process is told to have started when it is connected with every other that stands.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/core/ids.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::actors {

namespace launch_action {

/// Of the place's host agent. The request's number comes back.
struct start {
  std::uint64_t request = 0;
  messages::process_name who = {};
  int agent = 0;
};
/// Of its host agent, which is a new one.
struct adopt {
  std::uint64_t request = 0;
  int process = 0;
  std::uint64_t which = 0;  ///< the agent's incarnation of it
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;
};
struct kill {
  std::uint64_t request = 0;
  int process = 0;
  std::uint64_t which = 0;  ///< the agent's incarnation of it
  int agent = 0;
};
struct end_agent {
  int agent = 0;
};
/// It does not answer.
struct kill_agent {
  int agent = 0;
};

/// Of this process's connector: to know the other one. The newcomer is called by those that were
/// there; it learns where their data planes are.
struct connect {
  messages::process_name by = {}, other = {};
  bool calls = false;
};
/// Of everybody's: that one is gone.
struct forget {
  messages::process_name who = {};
  std::string why;
};

/// Of what lives on a host that is lost: it has no part in the run any more.
struct abandon {
  messages::process_name who = {};
};

/// To the ledger: a successor is to know it, too.
struct avoid {
  int process = 0;
  int agent = 0;
};
/// To the user: from now on another agent starts this place.
struct relocate {
  int process = 0;
  int from = 0, to = 0;
  std::vector<int> beside = {};  ///< what places that agent has, too
  std::string why = {};
};

/// To the supervisor.
struct tell_started {
  messages::process_name who = {};
  bool lived = false;
};
struct tell_died {
  messages::process_name who = {};
  std::string how;
};
struct refuse {
  messages::process_name who = {};
  std::string why = {};
  int agent = 0;
  bool of_host = false;  ///< it is the agent's host that refuses, whatever place is meant
};
/// It would stand on a host of its own: when a state is kept it may be asked for again.
struct offer_move {
  messages::process_name who = {};
  int to = 0;
};
/// The host to which it might have moved is gone.
struct withdraw_offer {
  messages::process_name who = {};
};

/// It has to show itself within the time that is given to one that starts: `late` otherwise.
struct expect {
  messages::process_name who = {};
};
/// Nothing is left to do.
struct quit {};

}  // namespace launch_action

using launch_actions = std::vector<std::variant<launch_action::start,
                                                launch_action::adopt,
                                                launch_action::kill,
                                                launch_action::end_agent,
                                                launch_action::kill_agent,
                                                launch_action::connect,
                                                launch_action::forget,
                                                launch_action::abandon,
                                                launch_action::avoid,
                                                launch_action::relocate,
                                                launch_action::tell_started,
                                                launch_action::tell_died,
                                                launch_action::refuse,
                                                launch_action::offer_move,
                                                launch_action::withdraw_offer,
                                                launch_action::expect,
                                                launch_action::quit>>;

/// A place that a launcher before this one has filled.
struct filled_place {
  messages::process_name who = {};  ///< the newest that was started there
  int agent = 0;
  std::uint64_t which = 0;  ///< the agent's incarnation of it
  std::int64_t pid = 0;     ///< 0: it runs no more
  std::uint64_t start_time = 0;
  bool watched = false;  ///< by the agent that is there; else it is to be adopted
};

/// One thread.
class launch_machine {
 public:
  using name = messages::process_name;

  /// `agent_of`: who starts each place at first; `spares` agents more have none. `home`: the
  /// process of the launcher itself, with which all are connected. `outlived`: processes live on
  /// when their agent dies.
  launch_machine(const std::vector<int>& agent_of,
                 name home,
                 bool outlived = false,
                 int spares = 0);

  /// At the beginning. It comes again by itself, and has lived; else it is started anew.
  launch_actions take_over(const filled_place& x);
  /// The same: a launcher before this one was told that the place is to be elsewhere.
  void avoid(int process, int agent);

  // By the supervisor:

  /// `elsewhere`: where it was, it is started only when no other host is left.
  launch_actions wanted(int process, runtime::generation_id in, bool elsewhere = false);
  /// Of each place the one that keeps its states: hosts of neither are preferred for it.
  void kept_in(std::vector<int> keepers) { keepers_ = std::move(keepers); }
  /// The first time all are told to end by who calls; the second they are killed; the third the
  /// agent is.
  launch_actions over();

  // By processes:

  /// Why this one may not take part; empty: it may.
  std::string joins(name who, std::int64_t pid, std::uint64_t start_time = 0);
  launch_actions present(name who);
  /// `by` knows `other` now; or cannot reach it; or has not answered in time, with no failure.
  launch_actions connected(name by, name other, const std::string& failure);
  launch_actions unanswered(name by, name other);
  launch_actions withdrawn(name who, const std::string& why);
  /// Nothing is heard of it any more, or it has not come in time.
  launch_actions late(name who, const std::string& why);

  // By host agents:

  /// Or adopted.
  launch_actions started(std::uint64_t request,
                         std::uint64_t which,
                         std::int64_t pid,
                         std::uint64_t start_time = 0);
  launch_actions refused(std::uint64_t request, const std::string& why);
  launch_actions signalled(std::uint64_t request);
  launch_actions died(int process, std::uint64_t which, const std::string& how);
  /// It starts nobody any more: whoever is wanted waits for the next one.
  void agent_ends(int agent);
  /// It is; and everybody whom it has started, unless they outlive it.
  launch_actions agent_gone(int agent, const std::string& why);

  // By hosts that have agents of their own:

  /// Nobody is started there any more, and its places move.
  launch_actions host_gone(int agent, const std::string& why);
  /// It does not serve this run. Before anybody has stood that is the user's mistake, and ends the
  /// run; later it is a host that is gone.
  launch_actions host_refuses(int agent, const std::string& why);
  /// It was gone, and serves again, with nothing of what was there.
  launch_actions host_back(int agent);

  /// Those that have been present and are not known to be gone.
  std::vector<name> here() const;
  /// Who starts that place, or has.
  int agent_of(int process) const {
    return is_process(process) ? all_[std::size_t(process)].agent : -1;
  }
  bool is_over() const { return over_ > 0; }
  bool has_quit() const { return has_quit_; }

 private:
  enum class phase : std::uint8_t { none, starting, connecting, stands, ending };
  struct agent {
    bool ends = false;          ///< it starts nobody any more
    bool gone = false;          ///< since the job is over, for good
    bool asked_to_end = false;  ///< the same
    std::string lost = {};      ///< why its host is; empty: it is there
    std::string unfit = {};     ///< why nobody else is started there; empty: one may be

    bool is_usable() const { return lost.empty() && unfit.empty(); }
  };
  struct one {
    name who = {};
    int agent = 0;
    phase is = phase::none;
    runtime::generation_id asked = {};  ///< in which it is wanted; 0: it never was
    std::uint64_t start_request = 0, kill_request = 0, adopt_request = 0;
    std::uint64_t which = 0;  ///< the agent's incarnation; 0: it has not answered
    std::int64_t pid = 0, joined = 0;
    std::uint64_t start_time = 0;  ///< of the process that has that pid
    bool present = false;
    bool lived = false;   ///< before this launcher
    bool killed = false;  ///< the agent has
    bool again = false;   ///< it is wanted when this one has ended
    bool refused = false;
    std::optional<int> offered = {};  ///< the agent that it may move to
    bool stood = false;               ///< an incarnation of this place has
    int failures = 0;                 ///< in a row, before it stood
    int times_late = 0;  ///< of this incarnation, while nobody has said that it was started
    std::string failure;
    std::set<int> avoided = {};               ///< agents that start it only where no other is left
    std::set<std::pair<name, name>> awaited;  ///< by, other
    std::map<std::pair<name, name>, int> failed_calls;
  };

  bool is_process(int x) const { return x >= 0 && x < int(all_.size()); }
  /// Null: it is no more, or another incarnation is.
  one* find(name who);
  bool is_here(name who) const;
  void launch(one& x, launch_actions& out);
  /// Who starts it next; nothing: no host is left.
  std::optional<int> agent_for(const one& x) const;
  std::vector<int> beside(const one& x, int agent) const;
  /// Whether another host is tried, for this reason.
  bool leave_host(one& x, const std::string& why);
  void offer_moves(launch_actions& out);
  void kill(one& x, launch_actions& out);
  /// Nobody was asked to start it yet, and it does not live since before.
  static bool waits_for_agent(const one& x) {
    return x.is == phase::starting && x.start_request == 0 && x.pid == 0 && x.joined == 0;
  }
  /// False: nothing is known of it that could be adopted.
  bool adopt(one& x, launch_actions& out);
  void fail(one& x, const std::string& why, launch_actions& out);
  void lose(one& x, const std::string& how, launch_actions& out);
  void no_longer_awaited(name gone, launch_actions& out);
  void stand_if_connected(one& x, launch_actions& out);
  void refuse(one& x, const std::string& why, launch_actions& out);
  void end_if_alone(launch_actions& out);
  void quit_if_over(launch_actions& out);

  const name home_;
  const bool outlived_;
  std::vector<one> all_;
  std::vector<agent> agents_;
  std::vector<int> keepers_;
  std::string refused_ = {};  ///< by a host, before anybody stood: why the run ends
  int refused_by_ = 0;        ///< the same
  std::uint64_t requests_;
  bool has_quit_ = false;
  int over_ = 0;
};

/// Of a process that dies before it stands: then it is refused with what it died of.
inline constexpr int most_failed_starts = 3;
/// Of one process by another: a machine that starts many at once answers late.
inline constexpr int most_failed_calls = 3;

}  // namespace troupe::actors
