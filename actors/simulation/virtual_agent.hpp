// Starts the processes of a simulated job and reports their ends: the agents of all virtual hosts
// in one actor.

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

inline constexpr std::uint64_t longest_start_ns = 2'000'000'000;

/// State of the agent; it outlives the actor.
class virtual_hosts {
 public:
  /// `told` makes the context of a new process. Process p runs on host p modulo `hosts`. The agent
  /// sends by `messages`. `recovery` configures the failure detectors. `hosts_in_rack`: hosts of a
  /// failure domain; 0: each host is its own.
  virtual_hosts(virtual_network& network,
                int processes,
                int hosts,
                std::shared_ptr<const message_path> messages,
                runtime::recovery_settings recovery,
                std::function<node_context()> told,
                int hosts_in_rack = 0);
  ~virtual_hosts();

  void start(const messages::start_process& x);
  void end(const messages::shut_down& x);
  std::vector<virtual_process*> living() const;
  /// "process:1", by its place in the job; empty for other processes.
  std::string name_of(const virtual_process* x) const;
  /// Living processes that were killed because their supervisor requested a replacement.
  const std::vector<std::string>& exchanged() const { return exchanged_; }

 private:
  struct hosted {
    virtual_process* process = nullptr;
    messages::node_actor node;
    messages::connector_actor connector;
    std::uint32_t incarnation = 0;
    bool starting = false;
    messages::start_process asked = {};  ///< newest order
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
