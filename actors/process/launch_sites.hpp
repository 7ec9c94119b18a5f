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
#include <vector>

namespace troupe::actors {

/// Used by the launcher alone, in its handlers.
class launch_sites {
 public:
  virtual ~launch_sites() = default;
  launch_sites() = default;
  launch_sites(const launch_sites&) = delete;
  launch_sites& operator=(const launch_sites&) = delete;

  /// What a launcher before this one has left, where this run's supervisor's process is a
  /// successor.
  virtual std::vector<filled_place> filled() const { return {}; }

  /// Who starts each place, for the launch machine.
  virtual std::vector<int> agents() const = 0;
  /// Whether processes live on when their agent dies, and another one adopts them.
  virtual bool are_outlived() const = 0;
  /// `port`: of the rendezvous. Throws runtime::error: it cannot be.
  virtual void start(const launch_action::start& x, std::uint16_t port) = 0;
  /// The same.
  virtual void adopt(const launch_action::adopt& x) = 0;
  virtual void kill(const launch_action::kill& x) = 0;
  /// False: there is none.
  virtual bool end_agent(int agent) = 0;
  virtual void kill_agent(int agent) = 0;

  /// It says that; false: another has taken its place.
  virtual bool hear(const messages::agent_told& x) = 0;
  /// Whose host is gone with that actor; -1: nobody's.
  virtual int host_of(const caf::actor_addr& x) const = 0;

  /// In a complaint: "process:1", and where that is.
  virtual std::string name_of(int process) const = 0;
  virtual std::string log_of(int process) const = 0;
};

/// Of this host, whose agent is started now. Throws io_error: it cannot be.
std::unique_ptr<launch_sites> sites_of_this_host(messages::launcher_actor::pointer self,
                                                 const launch_settings& settings,
                                                 const node_context& context,
                                                 int processes,
                                                 double suspicion);

/// To those that stand there. Throws input_error that names the one that is not reached, not within
/// `patience`, or is no node of ours.
std::vector<messages::standing_node_actor> connect_with(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience);

/// Of other hosts: asks each of `nodes`, which are those of `settings.standing`, to serve.
/// `refused(host, why)` is called by a handler of `self` when one does not.
std::unique_ptr<launch_sites> sites_of_standing_nodes(
    messages::launcher_actor::pointer self,
    const launch_settings& settings,
    std::vector<messages::standing_node_actor> nodes,
    const node_context& context,
    double suspicion,
    std::function<void(int host, const std::string& why)> refused);

}  // namespace troupe::actors
