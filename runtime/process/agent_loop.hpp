// The host agent's one thread: sockets, children and time become events of agent_state, and its
// actions are carried out.

#pragma once

#include "runtime/process/agent_state.hpp"
#include "runtime/process/child_process.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/frames.hpp"

#include <deque>
#include <map>
#include <set>
#include <string>
#include <unistd.h>
#include <variant>

namespace troupe::runtime {

/// Within `guarded`: signals are blocked, orphans come to this process. One thread.
class agent_loop {
 public:
  /// `connection` may be none.
  /// `obeys_signals`: ends by SIGTERM, SIGINT and SIGHUP; else by the death of its parent alone.
  agent_loop(const agent_settings& settings,
             descriptor listening,
             descriptor connection,
             bool obeys_signals);

  /// Until no child is left and it was time to end.
  void run();

 private:
  struct peer {
    descriptor connection;
    frame_reader received;
    std::string to_send;
  };
  using peers = std::map<peer_id, peer>;

  void join(descriptor connection);
  void watch(const descriptor& x, std::uint64_t key, std::uint32_t events, bool anew) const;
  void wait_and_take();
  void take(std::uint64_t key, std::uint32_t events);
  void accept_all();
  void read_signals();
  void reap();
  void read_from(peers::iterator x);
  void write_to(peers::iterator x);
  void drop(peer_id who);

  void follow(agent_actions actions);
  void carry_out(const agent_action::answer& x);
  void carry_out(const agent_action::hang_up& x);
  void carry_out(const agent_action::start& x);
  void carry_out(const agent_action::signal& x);
  void carry_out(const agent_action::kill_all& x);
  void carry_out(const agent_action::say& x);
  void carry_out(const agent_action::leave& x);

  /// Whose parent has ended belongs to nobody. After the death of a process with a name, and of
  /// those that this kills, until none is left.
  void kill_orphans();
  bool is_of_a_name(int pid) const;

  agent_state state_;
  const bool obeys_signals_;
  const pid_t parent_ = ::getppid();
  descriptor epoll_, signals_, listening_;
  peers peers_;
  std::uint64_t next_peer_;
  std::map<std::string, child_process> children_;  ///< by name
  std::set<int> killed_orphans_;
  std::deque<agent_actions::value_type> waiting_;
  bool following_ = false, left_ = false;
};

}  // namespace troupe::runtime
