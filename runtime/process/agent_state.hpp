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
/// Is told to `signalled` or `not_signalled`.
struct signal {
  peer_id asker;
  signal_process what;
  process_id process;
};
/// Every child, and whatever they left.
struct kill_all {};
/// A line of the agent's log.
struct say {
  std::string line;
};
/// No child is left: the last action.
struct leave {};

}  // namespace agent_action

using agent_actions = std::vector<std::variant<agent_action::answer,
                                               agent_action::hang_up,
                                               agent_action::start,
                                               agent_action::signal,
                                               agent_action::kill_all,
                                               agent_action::say,
                                               agent_action::leave>>;

/// One thread.
///
///   AGENT-1  An incarnation of a name begins after the one before has ended, and its death is told
///            once, to all who ever asked.
///   AGENT-2  What cannot be understood costs its sender the connection, and nobody else anything.
///   AGENT-3  The agent leaves when it was told to, or nobody was there for long, and no child is
///            left.
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
  agent_actions signalled(const agent_action::signal& what) const;
  agent_actions not_signalled(const agent_action::signal& what, const std::string& why) const;

  agent_actions died(const std::string& name, const process_end& how);
  /// By a signal to the agent itself.
  agent_actions told_to_end(const std::string& why);
  agent_actions time_is(time now);
  /// No child is left, an orphan of another's neither.
  agent_actions nobody_runs();

  /// When time_is has to be called; nothing: no time changes anything.
  std::optional<time> deadline() const;
  bool is_ending() const { return why_ending_.has_value(); }

 private:
  agent_actions carry_out(peer_id who, const start_process& x);
  agent_actions carry_out(peer_id who, const signal_process& x) const;
  agent_actions carry_out(peer_id who, const list_processes& x) const;
  agent_actions carry_out(peer_id who, const end_agent& x);
  agent_actions end(const std::string& why);
  agent_actions told_to_all(const agent_answer& what) const;

  agent_settings settings_;
  std::map<std::string, known_process> known_;  ///< the newest incarnation of each name
  std::set<peer_id> strangers_, owners_;
  std::optional<time> alone_since_;  ///< nothing: an owner is there
  std::optional<std::string> why_ending_;
  std::set<std::string> complaints_;  ///< each is said once
};

}  // namespace troupe::runtime
