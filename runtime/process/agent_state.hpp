// The state machine of a host agent, without processes, sockets and clock: (state, event) →
// actions. agent_loop carries the actions out. docs/protocol/host_agent.md.

#pragma once

#include "runtime/process/agent_messages.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// Number of a connection; never reused.
enum class peer_id : std::uint64_t {};

/// The sender of the agent's own requests.
inline constexpr peer_id agent_itself{0};

struct agent_settings {
  /// The agent ends after it has been without any owner for this long.
  std::chrono::milliseconds owner_patience = std::chrono::seconds(100);
  std::size_t most_names = 1024;
  std::size_t most_peers = 16;
};

namespace agent_action {

struct answer {
  peer_id to;
  agent_answer what;
};
struct hang_up {
  peer_id whom;
};
/// Followed by `started` or `not_started` before the next event.
struct start {
  peer_id asker;
  start_process what;
};
/// Followed by `adopted` or `not_adopted` before the next event.
struct adopt {
  peer_id asker;
  adopt_process what;
};
/// Followed by `signalled` or `not_signalled`.
struct signal {
  peer_id asker;
  signal_process what;
  process_id process;
};
/// Kills the process; followed by `fenced` when it has ended, or by `not_fenced`.
struct fence {
  process_id process;
};
/// Whether the agent will start a successor of the supervisor process. Other processes read it
/// before they wait for a successor.
struct promise {
  bool given;
};
/// Kills every child, their orphans, and the adopted processes.
struct kill_all {
  std::string spared;  ///< name of a process that stays alive; empty: none
};
/// Writes a line into the agent's log.
struct say {
  std::string line;
};
/// The last action: no process is left.
struct leave {};

}  // namespace agent_action

using agent_actions = std::vector<std::variant<agent_action::answer,
                                               agent_action::hang_up,
                                               agent_action::start,
                                               agent_action::adopt,
                                               agent_action::signal,
                                               agent_action::fence,
                                               agent_action::promise,
                                               agent_action::kill_all,
                                               agent_action::say,
                                               agent_action::leave>>;

/// An owner is a connection that has sent a request. One thread.
///
///   AGENT-1  An incarnation of a name starts after the previous one has ended: its
///            request waits, and replaces one that waits. Each death is reported once, to all
///            owners.
///   AGENT-2  A message that cannot be understood closes its sender's connection and has no other
///            effect.
///   AGENT-3  The agent leaves when it was told to end, or was without an owner for long, and none
///            of its processes runs. A supervisor process that told it to end may still run.
///   AGENT-4  A successor of the supervisor process starts after that process has ended; one
///            successor runs at a time.
class agent_state {
 public:
  using time = std::chrono::steady_clock::time_point;

  agent_state(const agent_settings& settings, time now) : settings_(settings), alone_since_(now) {}

  agent_actions joined(peer_id who);
  /// A request. The first one makes its sender an owner.
  agent_actions asked(peer_id who, const agent_request& what);
  /// The peer sent an invalid message, or does not read its messages.
  agent_actions misbehaved(peer_id who, const std::string& why);
  agent_actions left(peer_id who, time now);

  agent_actions started(const agent_action::start& what, const process_id& process);
  agent_actions not_started(const agent_action::start& what, const std::string& why);
  agent_actions adopted(const agent_action::adopt& what);
  agent_actions not_adopted(const agent_action::adopt& what, const std::string& why);
  agent_actions signalled(const agent_action::signal& what) const;
  agent_actions not_signalled(const agent_action::signal& what, const std::string& why) const;

  agent_actions died(const std::string& name, const process_end& how, time now);
  agent_actions fenced();
  /// The process cannot be killed, or its end cannot be observed.
  agent_actions not_fenced(const std::string& why, time now);
  /// The agent itself got a signal.
  agent_actions told_to_end(const std::string& why);
  /// Called after each event.
  agent_actions time_is(time now);
  /// No child, orphan or adopted process is left, except `spared`.
  agent_actions nobody_runs();

  /// Time of the next call of time_is; empty if no timer is set.
  std::optional<time> deadline() const;
  bool is_ending() const { return why_ending_.has_value(); }
  /// Name of the process that is not killed at the end; empty: none.
  const std::string& spared() const { return spared_; }

 private:
  agent_actions carry_out(peer_id who, const start_process& x);
  agent_actions carry_out(peer_id who, const signal_process& x) const;
  agent_actions carry_out(peer_id who, const list_processes& x) const;
  agent_actions carry_out(peer_id who, const adopt_process& x);
  agent_actions carry_out(peer_id who, const succeed_owner& x);
  agent_actions carry_out(peer_id who, const owner_still_there& x) const;
  agent_actions carry_out(peer_id who, const end_agent& x);
  agent_actions end(const std::string& why);
  /// Why a process of that name cannot start; empty: it can.
  std::string why_no_more(const std::string& name) const;
  const known_process& begins(const std::string& name, incarnation which, const process_id& as);

  /// State of the succession (agent_succession.cpp).
  enum class awaits : std::uint8_t {
    nothing,    ///< no request yet, or the agent gave up
    sign,       ///< a heartbeat of the supervisor process
    its_end,    ///< the end of the supervisor process, which is being killed
    free_name,  ///< the report of the death of the previous successor
    successor,  ///< a succeed_owner request of the started successor
  };
  struct succession_state {
    awaits for_what = awaits::nothing;
    succeed_owner what;  ///< the newest request
    peer_id by = agent_itself;
    time gone = {};                  ///< when the loss was noticed
    int silent = 0;                  ///< consecutive slices without a heartbeat
    std::optional<time> slice_ends;  ///< in its_end: when the kill is retried
    int failed = 0;                  ///< consecutive failed successors and fences
  };
  std::string why_no_succession(peer_id who, const succeed_owner& x) const;
  std::chrono::nanoseconds slice() const;
  agent_actions owner_gone(const std::string& how, time now);
  agent_actions start_successor();
  agent_actions successor_failed(const std::string& how);
  agent_actions give_up(const std::string& why);
  agent_actions successor_died(const known_process& it, time now);
  agent_actions hear_silence(time now);

  agent_actions told_to_all(const agent_answer& what) const;

  agent_settings settings_;
  std::map<std::string, known_process> known_;       ///< the newest incarnation of each name
  std::map<std::string, agent_action::start> next_;  ///< starts when the one before has ended
  std::set<peer_id> strangers_, owners_;
  std::optional<time> alone_since_;  ///< empty while an owner is connected
  succession_state succession_;
  std::optional<std::string> why_ending_;
  std::string spared_;
  std::set<std::string> complaints_;  ///< logged once each
};

}  // namespace troupe::runtime
