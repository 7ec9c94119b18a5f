// What a host agent does about what happens: a machine without processes, sockets and clock.
// (state, event) → actions, which host_agent.cpp carries out. docs/protocol/host_agent.md.

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

/// Of a connection; no number comes twice.
enum class peer_id : std::uint64_t {};

/// Who asks for what the agent does by itself.
inline constexpr peer_id agent_itself{0};

struct agent_settings {
  /// How long nobody may be there who ever asked anything, until everybody is killed.
  std::chrono::milliseconds owner_patience = std::chrono::seconds(100);
  std::size_t most_names = 1024;
  std::size_t most_peers = 16;
};

/// What the machine asks for.
namespace agent_action {

struct answer {
  peer_id to;
  agent_answer what;
};
struct hang_up {
  peer_id whom;
};
/// Is told to `started` or `not_started` before the next event.
struct start {
  peer_id asker;
  incarnation which;
  start_process what;
};
/// Is told to `adopted` or `not_adopted` before the next event.
struct adopt {
  peer_id asker;
  adopt_process what;
};
/// Is told to `signalled` or `not_signalled`.
struct signal {
  peer_id asker;
  signal_process what;
  process_id process;
};
/// Is killed where it runs, and told to `fenced` when it has ended, or to `not_fenced`.
struct fence {
  process_id process;
};
/// Whether a successor of the run's supervisor's process is started when that is gone: others read
/// it before they wait for one.
struct promise {
  bool given;
};
/// Every child, whatever they left, and who was adopted.
struct kill_all {
  std::string spared;  ///< but that of this name; empty: nobody
};
/// A line of the agent's log.
struct say {
  std::string line;
};
/// Nobody is left: the last action.
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

/// One thread.
///
///   AGENT-1  An incarnation of a name begins after the one before has ended, and its death is told
///            once, to all who ever asked.
///   AGENT-2  What cannot be understood costs its sender the connection, and nobody else anything.
///   AGENT-3  The agent leaves when it was told to, or nobody was there for long, and nobody is
///            left whom it has started or adopted, but the run's supervisor's process that has told
///            it.
///   AGENT-4  The successor of the run's supervisor's process starts after that has ended, and one
///            at a time.
class agent_state {
 public:
  using time = std::chrono::steady_clock::time_point;

  agent_state(const agent_settings& settings, time now) : settings_(settings), alone_since_(now) {}

  agent_actions joined(peer_id who);
  /// A request; the first makes its sender an owner.
  agent_actions asked(peer_id who, const agent_request& what);
  /// What it sent is none, or it does not read what it is told.
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
  /// It cannot be killed, or not be seen to end.
  agent_actions not_fenced(const std::string& why, time now);
  /// By a signal to the agent itself.
  agent_actions told_to_end(const std::string& why);
  /// Called after each event.
  agent_actions time_is(time now);
  /// No child is left, an orphan of another's neither, and nobody who was adopted; but `spared`.
  agent_actions nobody_runs();

  /// When time_is has to be called; nothing: no time changes anything.
  std::optional<time> deadline() const;
  bool is_ending() const { return why_ending_.has_value(); }
  /// The name of who is not killed at the end; empty: nobody.
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
  /// Why a process of that name cannot be; empty: it can.
  std::string why_no_more(const std::string& name) const;

  // Of the succession (agent_succession.cpp):

  /// What the agent waits for.
  enum class awaits : std::uint8_t {
    nothing,    ///< nobody has asked to be succeeded, or the agent has given up
    sign,       ///< of life, by the supervisor's process
    its_end,    ///< that of the supervisor's process, which is being killed
    free_name,  ///< the end of the successor before, whose death has not been told
    successor,  ///< that has been started, and has not asked to be succeeded itself
  };
  struct succession_state {
    awaits for_what = awaits::nothing;
    succeed_owner what;  ///< as the newest has asked
    peer_id by = agent_itself;
    time gone = {};                  ///< when its loss was noticed
    int silent = 0;                  ///< slices in a row without a sign
    std::optional<time> slice_ends;  ///< of its_end: when that is tried again
    int failed = 0;  ///< successors in a row that have not asked to be succeeded, or fences
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
  std::map<std::string, known_process> known_;  ///< the newest incarnation of each name
  std::set<peer_id> strangers_, owners_;
  std::optional<time> alone_since_;  ///< nothing: an owner is there, or from the next time_is on
  succession_state succession_;
  std::optional<std::string> why_ending_;
  std::string spared_;
  std::set<std::string> complaints_;  ///< each is said once
};

}  // namespace troupe::runtime
