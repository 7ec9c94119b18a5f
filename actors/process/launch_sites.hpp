// The sites at which the places of a job start: this host's agent, or standing nodes on other
// hosts. Carries out the launch machine's actions for agents.

#pragma once

#include "actors/host/shared_resources.hpp"
#include "actors/process/agent_link.hpp"
#include "actors/process/launch_machine.hpp"
#include "actors/process/launch_settings.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/process/run_folder.hpp"

#include <caf/actor_addr.hpp>
#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Used only by the launcher, in its handlers. The places of this base class start on this host.
class launch_sites {
 public:
  /// `port`: of the rendezvous. `agent`: this host's number in messages of its agent; empty: it has
  /// none. Starts the agent. Throws io_error.
  launch_sites(messages::launcher_actor::pointer self,
               const launch_settings& settings,
               std::uint16_t port,
               const shared_resources& context,
               int processes,
               double suspicion,
               std::optional<int> agent);
  virtual ~launch_sites() = default;
  launch_sites(const launch_sites&) = delete;
  launch_sites& operator=(const launch_sites&) = delete;

  /// True if all hosts have answered whether they serve, and what an earlier launcher left there.
  /// Nothing is started before.
  virtual bool is_ready() const { return true; }
  virtual std::vector<filled_place> filled() const { return filled_; }
  /// Hosts that did not serve this launcher at its start, and why.
  virtual std::vector<std::pair<int, std::string>> missing() const { return {}; }

  /// The first agent of each place, for the launch machine; `spares`: the number of further agents.
  virtual std::vector<int> agents() const { return std::vector<int>(std::size_t(processes_), 0); }
  virtual int spares() const { return 0; }
  /// Slots and failure domain of each agent's host; empty: there is one agent.
  virtual std::vector<runtime::host_slots> hosts() const { return {}; }
  /// Throws runtime::error on failure.
  virtual void start(const launch_action::start& x);
  virtual void kill(const launch_action::kill& x);
  /// Returns false when there is no such agent.
  virtual bool end_agent(int agent);
  virtual void kill_agent(int) { agent_->kill(); }
  /// Called when all agents are gone. Returns false while this host's own agent still ends; `ended`
  /// is called then. The second call kills it.
  virtual bool end_own_agent() { return true; }

  /// Handles a message of an agent.
  virtual agent_link::heard hear(const messages::agent_told& x) { return agent_->hear(x); }
  /// The host that is lost with that actor; -1: none.
  virtual int host_of(const caf::actor_addr& /*x*/) const { return -1; }
  /// The host is lost: searches for it until it serves again.
  virtual void lose(int /*host*/) {}
  virtual void look(const messages::look_for_node& /*x*/) {}
  /// Hosts that serve now and could continue the run (run_copy.hpp).
  virtual std::vector<int> serving() const { return {}; }
  virtual void keep(int /*host*/, const messages::keep_run& /*x*/) {}
  /// Answered by host_listener::kept.
  virtual void keep(int /*host*/, messages::keep_ledger /*x*/) {}

  /// Names for messages: "process:1" and its host; "the node at 10.0.0.2:7000".
  virtual std::string name_of(int process, int agent) const;
  virtual std::string log_of(int process, int agent) const;
  virtual std::string name_of_host(int /*agent*/) const { return "this host"; }

 protected:
  std::chrono::milliseconds part_of_suspicion(double part) const;

  const messages::launcher_actor::pointer self_;
  const launch_settings settings_;
  const runtime::run_folder folder_;
  const std::uint16_t port_;
  const std::shared_ptr<const message_path> path_;
  const int processes_;
  const double suspicion_;
  std::unique_ptr<agent_link> agent_;  ///< of this host; null: none

 private:
  void take_over();

  std::vector<filled_place> filled_;
};

/// Connects with standing nodes. Throws input_error that names a node that is not reached within
/// `patience`, or is not a standing node of this build.
std::vector<messages::standing_node_actor> connect_with(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience);
/// Like connect_with, but with all nodes at once, and does not throw: returns null and logs a
/// warning for each node that is not reached within twice that time.
std::vector<messages::standing_node_actor> connect_with_those_there(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience);

/// Callbacks of hosts, in handlers of the launcher.
struct host_listener {
  std::function<void(int host, const std::string& why)> refused;
  /// For the first time, or again. `cores` of the host; 0: not told.
  std::function<void(int host, int cores)> serves;
  std::function<void(int host)> back;  ///< a lost host serves again
  /// Size of its copy of the ledger, and whether it took all that was sent.
  std::function<void(int host, std::uint64_t bytes, bool all)> kept;
  /// The host obeys a later incarnation.
  std::function<void(const std::string& why)> superseded;
  std::function<void()> ready;  ///< launch_sites::is_ready has become true
  std::function<void()> ended;  ///< launch_sites::end_own_agent has finished
};

/// Places on other hosts: asks each of `nodes`, in the order of `settings.standing`, to serve.
std::unique_ptr<launch_sites> sites_of_standing_nodes(
    messages::launcher_actor::pointer self,
    const launch_settings& settings,
    std::uint16_t port,
    int processes,
    const std::vector<messages::standing_node_actor>& nodes,
    const shared_resources& context,
    double suspicion,
    host_listener tell);

}  // namespace troupe::actors
