// Where the places of a job are started: by an agent of this host, or by nodes that were started by
// hand on others. Carries out what the launch machine asks of agents.

#pragma once

#include "actors/node/context.hpp"
#include "actors/process/launch_machine.hpp"
#include "actors/process/launch_settings.hpp"
#include "messages/protocol/actors.hpp"

#include <caf/actor_addr.hpp>
#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Used by the launcher alone, in its handlers.
class launch_sites {
 public:
  virtual ~launch_sites() = default;
  launch_sites() = default;
  launch_sites(const launch_sites&) = delete;
  launch_sites& operator=(const launch_sites&) = delete;

  /// Whether all hosts have said that they serve, and what a launcher before this one has left
  /// there, or that they do not. Until then nobody is started.
  virtual bool is_ready() const { return true; }
  virtual std::vector<filled_place> filled() const { return {}; }
  /// Those that do not serve this launcher from its beginning, and why.
  virtual std::vector<std::pair<int, std::string>> missing() const { return {}; }

  /// Who starts each place at first, for the launch machine; and how many more there are.
  virtual std::vector<int> agents() const = 0;
  virtual int spares() const { return 0; }
  /// Whether processes live on when their agent dies, and another one adopts them.
  virtual bool are_outlived() const = 0;
  /// Throws runtime::error: it cannot be.
  virtual void start(const launch_action::start& x) = 0;
  /// The same.
  virtual void adopt(const launch_action::adopt& x) = 0;
  virtual void kill(const launch_action::kill& x) = 0;
  /// False: there is none.
  virtual bool end_agent(int agent) = 0;
  virtual void kill_agent(int agent) = 0;
  /// All agents are gone. False: another one of the run is yet to end, which is told then. The
  /// second time it is killed.
  virtual bool end_own_agent() { return true; }

  /// It says that; false: another has taken its place.
  virtual bool hear(const messages::agent_told& x) = 0;
  /// Whose host is gone with that actor; -1: nobody's.
  virtual int host_of(const caf::actor_addr& x) const = 0;
  /// That host is gone: it is looked for, until it serves again.
  virtual void lose(int /*host*/) {}
  virtual void look(const messages::look_for_node& /*x*/) {}
  /// Hosts that may go on with the run (run_copy.hpp): those that serve it now.
  virtual std::vector<int> serving() const { return {}; }
  virtual void keep(int /*host*/, const messages::keep_run& /*x*/) {}
  /// Answered by host_listener::kept.
  virtual void keep(int /*host*/, messages::keep_ledger /*x*/) {}

  /// In a complaint: "process:1", and where that is; "the node at 10.0.0.2:7000".
  virtual std::string name_of(int process, int agent) const = 0;
  virtual std::string log_of(int process, int agent) const = 0;
  virtual std::string name_of_host(int /*agent*/) const { return "this host"; }
};

/// Of this host, whose agent is started now. `port`: of the rendezvous. Throws io_error: it cannot
/// be.
std::unique_ptr<launch_sites> sites_of_this_host(messages::launcher_actor::pointer self,
                                                 const launch_settings& settings,
                                                 std::uint16_t port,
                                                 const node_context& context,
                                                 int processes,
                                                 double suspicion);

/// To those that stand there. Throws input_error that names the one that is not reached, not within
/// `patience`, or is no node of ours.
std::vector<messages::standing_node_actor> connect_with(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience);
/// The same of those that are there: null for whoever is not reached within twice that time, of
/// which it warns. All at once.
std::vector<messages::standing_node_actor> connect_with_those_there(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience);

/// What a handler of the launcher's is told of hosts.
struct host_listener {
  std::function<void(int host, const std::string& why)> refused;
  std::function<void(int host)> serves;  ///< for the first time, or again
  std::function<void(int host)> back;    ///< one that was lost serves again
  /// What its copy of the ledger has now: all that it was sent, or not.
  std::function<void(int host, std::uint64_t bytes, bool all)> kept;
  /// It obeys a later incarnation.
  std::function<void(const std::string& why)> superseded;
  std::function<void()> ready;  ///< launch_sites::is_ready, after it was not
  std::function<void()> ended;  ///< launch_sites::end_own_agent has come to its end
};

/// Of other hosts: asks each of `nodes`, which are those of `settings.standing`, to serve, the
/// first with a place each, the others as spares.
std::unique_ptr<launch_sites> sites_of_standing_nodes(
    messages::launcher_actor::pointer self,
    const launch_settings& settings,
    std::uint16_t port,
    int processes,
    const std::vector<messages::standing_node_actor>& nodes,
    const node_context& context,
    double suspicion,
    host_listener tell);

}  // namespace troupe::actors
