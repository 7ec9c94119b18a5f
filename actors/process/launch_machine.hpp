// The life of a job's processes as a state machine: (state, event) → actions, without actors,
// sockets and clock. The launcher (launcher.hpp) carries the actions out.
// docs/protocol/rendezvous.md.
//
// States of a process:
//
//   none -> starting -> stands -> none
//           (asked)     (told)    (died)
//      any but none -> ending -> none, or starting again      (killed, and its death awaited)
//
// A host agent starts each place: this host's agent starts all, or each host's agent starts one.
// Agents are numbered from 0; agents without a place at first are spare.
//
// When its host is gone, a place moves. The first agent with a free slot starts its next
// incarnation; if there is none, the agent that then exceeds its slots least does. The place moves
// again when a host with a free slot arrives.
//   PROCESS-1  Only the newest incarnation of a process takes part: one that comes late is refused.

#pragma once

#include "messages/control/rendezvous.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/layout/placement.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe::actors {

namespace launch_action {

/// Asks the place's host agent to start the process. The answer carries the request's number.
struct start {
  std::uint64_t request = 0;
  messages::process_name who = {};
  int agent = 0;
};
struct kill {
  std::uint64_t request = 0;
  messages::process_name who = {};
  int agent = 0;
};
struct end_agent {
  int agent = 0;
};
/// The agent does not answer.
struct kill_agent {
  int agent = 0;
};

/// Tells all connectors that the process is gone.
struct forget {
  messages::process_name who = {};
  std::string why;
};

/// Tells a process on a lost host that it no longer takes part in the run.
struct abandon {
  messages::process_name who = {};
};

/// Recorded in the ledger, so that a successor knows it.
struct avoid {
  int process = 0;
  int agent = 0;
};
/// Logged for the user: another agent starts this place from now on.
struct relocate {
  int process = 0;
  int from = 0, to = 0;
  /// The other places of that agent, if it has more places than slots.
  std::vector<int> beside = {};
  std::string why = {};
};

/// Sent to the supervisor, like the actions below.
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
  bool of_host = false;  ///< the host itself refuses, for every place
};
/// The process could have a host of its own; the supervisor may ask for it again when a state is
/// kept.
struct offer_move {
  messages::process_name who = {};
  int to = 0;
};
/// The host of the offer is gone.
struct withdraw_offer {
  messages::process_name who = {};
};

/// Starts the timer of a starting process; `late` follows when it does not join in time.
struct expect {
  messages::process_name who = {};
};
/// The machine has finished.
struct quit {};

}  // namespace launch_action

using launch_actions = std::vector<std::variant<launch_action::start,
                                                launch_action::kill,
                                                launch_action::end_agent,
                                                launch_action::kill_agent,
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

/// A place that an earlier launcher has filled.
struct filled_place {
  messages::process_name who = {};  ///< newest incarnation started there
  int agent = 0;
  std::int64_t pid = 0;  ///< 0: it does not run
};

/// One thread.
class launch_machine {
 public:
  using name = messages::process_name;

  /// `agent_of`: the first agent of each place; `spares` more agents have none. `home`: the
  /// launcher's own process. `hosts`: slots and failure domain of each agent's host; by default
  /// each has one slot, in a domain of its own.
  launch_machine(const std::vector<int>& agent_of,
                 name home,
                 int spares = 0,
                 std::vector<runtime::host_slots> hosts = {});

  /// Call it at the beginning, for a place of an earlier launcher. A running process joins again by
  /// itself; otherwise it is started again.
  launch_actions take_over(const filled_place& x);
  /// Call it at the beginning, if an earlier launcher was told that the place must move.
  void avoid(int process, int agent);

  // Events from the supervisor:

  /// `elsewhere`: its last host is used only when no other host is left.
  launch_actions wanted(int process, runtime::generation_id in, bool elsewhere = false);
  /// Sets the keeper of each place's states. A place prefers a failure domain that has neither its
  /// keeper nor the place that it keeps.
  void kept_in(std::vector<int> keepers) { keepers_ = std::move(keepers); }
  /// The first call ends all agents (the caller tells the processes), the second kills the
  /// processes, the third the agents.
  launch_actions over();

  // Events from processes:

  /// Why this incarnation may not take part; empty: it may.
  std::string joins(name who, std::int64_t pid);
  launch_actions present(name who);
  launch_actions withdrawn(name who, const std::string& why);
  /// The process has stopped reporting, or did not join in time.
  launch_actions late(name who, const std::string& why);

  // Events from host agents:

  launch_actions started(std::uint64_t request, std::int64_t pid);
  launch_actions refused(std::uint64_t request, const std::string& why);
  launch_actions signalled(std::uint64_t request);
  launch_actions died(name who, const std::string& how);
  /// The agent is gone and was not replaced; its processes have ended with it.
  launch_actions agent_gone(int agent, const std::string& why);

  // Events from hosts with agents of their own:

  /// The host is lost; its places move.
  launch_actions host_gone(int agent, const std::string& why);
  /// The host does not serve this run. Before any process has stood, this is the user's mistake and
  /// ends the run; later the host counts as lost.
  launch_actions host_refuses(int agent, const std::string& why);
  /// The host was lost and serves again, without its former processes.
  launch_actions host_back(int agent);

  /// Processes that joined and are not known to be gone.
  std::vector<name> here() const;
  /// The agent that starts or started that place.
  int agent_of(int process) const {
    return is_process(process) ? all_[std::size_t(process)].agent : -1;
  }
  bool is_over() const { return over_ > 0; }
  bool has_quit() const { return has_quit_; }

 private:
  enum class phase : std::uint8_t { none, starting, stands, ending };
  struct agent {
    bool gone = false;  ///< set when the job is over, for good
    bool asked_to_end = false;
    std::string lost = {};   ///< why its host is lost; empty: it is there
    std::string unfit = {};  ///< why no other process is started there; empty: it may be

    bool is_usable() const { return lost.empty() && unfit.empty(); }
  };
  struct one {
    name who = {};
    int first_agent = 0;  ///< at the start of the run; its places are neighbours
    int agent = 0;
    phase is = phase::none;
    runtime::generation_id asked = {};  ///< generation of the newest request; 0: none
    std::uint64_t start_request = 0, kill_request = 0;
    std::int64_t pid = 0, joined = 0;  ///< as the agent and the process told; 0: not yet
    bool present = false;
    bool lived = false;   ///< started by an earlier launcher
    bool killed = false;  ///< by the agent, on request
    bool again = false;   ///< start it again when this incarnation has ended
    bool refused = false;
    std::optional<int> offered = {};  ///< the agent of an offered move
    bool stood = false;               ///< an incarnation of this place has stood
    int failures = 0;                 ///< consecutive, before it stood
    int times_late = 0;  ///< of this incarnation, while the agent has not reported its start
    std::string failure;
    std::set<int> avoided = {};  ///< agents to use only when no other is left
  };

  bool is_process(int x) const { return x >= 0 && x < int(all_.size()); }
  /// Null when that incarnation is not the current one, or is gone.
  one* find(name who);
  void launch(one& x, launch_actions& out);
  /// The agent for the next start; empty: no host is left.
  std::optional<int> agent_for(const one& x) const;
  std::vector<int> beside(const one& x, int agent) const;
  int slots_of(int agent) const;
  bool is_same_domain(int agent, int other) const;
  /// Whether another host is tried after this failure.
  bool leave_host(one& x, const std::string& why);
  void offer_moves(launch_actions& out);
  void kill(one& x, launch_actions& out);
  void fail(one& x, const std::string& why, launch_actions& out);
  void lose(one& x, const std::string& how, launch_actions& out);
  void refuse(one& x, const std::string& why, launch_actions& out);
  void end_if_alone(launch_actions& out);
  void quit_if_over(launch_actions& out);

  const std::vector<runtime::host_slots> hosts_;
  std::vector<one> all_;
  std::vector<agent> agents_;
  std::vector<int> keepers_;
  std::string refused_ = {};  ///< by a host, before any process stood: why the run ends
  int refused_by_ = 0;
  std::uint64_t requests_;
  bool has_quit_ = false;
  int over_ = 0;
};

/// Maximum number of starts of a process that dies before it stands; then it is refused with the
/// cause of its death.
inline constexpr int most_failed_starts = 3;

}  // namespace troupe::actors
