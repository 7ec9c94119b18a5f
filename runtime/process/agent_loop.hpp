// The event loop of the host agent, on one thread. It turns sockets, children and time into events
// of agent_state and carries out the actions that agent_state returns.

#pragma once

#include "runtime/process/agent_state.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/frames.hpp"
#include "runtime/process/process_id.hpp"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

namespace troupe::runtime {

/// Publishes whether the agent will start a successor (agent_action::promise).
using promise_shown = std::function<void(bool given)>;

/// Makes this process a subreaper and blocks the signals that it reads. One thread.
class agent_loop {
 public:
  /// `connection` may be empty. `obeys_signals`: SIGTERM, SIGINT and SIGHUP end it.
  agent_loop(const agent_settings& settings,
             descriptor listening,
             descriptor connection,
             bool obeys_signals,
             promise_shown show);

  /// Returns when the agent is to end and no child is left.
  void run();

 private:
  struct peer {
    descriptor connection;
    frame_reader received;
    std::string to_send;
  };
  using peers = std::map<peer_id, peer>;
  /// A running process that is not a child of this one.
  struct adopted {
    process_id id;
    running_process it;
    std::uint64_t key;  ///< of its events in epoll
  };

  void join(descriptor connection);
  void watch(int descriptor, std::uint64_t key, std::uint32_t events, bool anew) const;
  void wait_and_take();
  void take(std::uint64_t key, std::uint32_t events);
  void accept_all();
  void read_signals();
  void reap();
  void end_adopted(std::uint64_t key);
  void read_from(peers::iterator x);
  void write_to(peers::iterator x);
  void drop(peer_id who);

  void follow(agent_actions actions);
  void carry_out(const agent_action::answer& x);
  void carry_out(const agent_action::hang_up& x);
  void carry_out(const agent_action::start& x);
  void carry_out(const agent_action::adopt& x);
  void carry_out(const agent_action::signal& x);
  void carry_out(const agent_action::fence& x);
  void carry_out(const agent_action::promise& x) const;
  void carry_out(const agent_action::kill_all& x);
  void carry_out(const agent_action::say& x);
  void carry_out(const agent_action::leave& x);

  /// Kills orphaned children. Called after the death of a named process, and again after the death
  /// of each orphan that it killed, until none is left.
  void kill_orphans();
  bool is_of_a_name(int pid) const;
  bool nobody_runs() const;

  agent_state state_;
  const bool obeys_signals_;
  const promise_shown show_promise_;
  descriptor epoll_, signals_, listening_;
  peers peers_;
  std::uint64_t next_peer_, next_adopted_;
  std::map<std::string, child_process> children_;  ///< by name; so are those below
  std::map<std::string, adopted> adopted_;
  std::optional<running_process> fenced_;  ///< waits for its end
  std::set<int> killed_orphans_;
  std::deque<agent_actions::value_type> waiting_;
  bool following_ = false, left_ = false;
};

}  // namespace troupe::runtime
