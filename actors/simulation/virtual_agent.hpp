// Who starts the processes of a simulated job and learns how they end: the agents of all virtual
// hosts in one actor.

#pragma once

#include "actors/simulation/virtual_process.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::actors::simulation {

/// What becomes of processes, for who plays: it outlives the actor.
class virtual_hosts {
 public:
  /// `told`: what each new process has. Process p is on host p modulo `hosts`. What an agent says
  /// goes by `messages`. Who hangs is looked for as `recovery` says.
  virtual_hosts(virtual_network& network,
                int processes,
                int hosts,
                std::shared_ptr<const message_path> messages,
                runtime::recovery_settings recovery,
                std::function<node_context()> told);
  ~virtual_hosts();

  void start(const messages::start_process& x);
  void end(const messages::shut_down& x);
  std::vector<virtual_process*> living() const;
  /// "process:1", by its place in the job; empty: it is none of these.
  std::string name_of(const virtual_process* x) const;
  /// Those that lived and were killed because their supervisor asked for others in their place.
  const std::vector<std::string>& exchanged() const { return exchanged_; }

 private:
  struct hosted {
    virtual_process* process = nullptr;
    messages::node_actor node;
    std::uint32_t incarnation = 0;
    bool starting = false;
    messages::start_process asked = {};  ///< the newest order
  };
  void answer(int process, bool lived);
  void come(int process);
  void lose(const virtual_process& x);

  virtual_network& network_;
  std::shared_ptr<const message_path> messages_;
  runtime::recovery_settings recovery_;
  std::function<node_context()> told_;
  std::vector<virtual_host*> hosts_;
  std::vector<hosted> all_;
  std::vector<std::string> exchanged_;
  bool ended_ = false;
};

struct virtual_agent_state {
  static constexpr const char* name = "agent";
};

messages::agent_actor::behavior_type virtual_agent(
    messages::agent_actor::stateful_pointer<virtual_agent_state> self, virtual_hosts* hosts);

}  // namespace troupe::actors::simulation
