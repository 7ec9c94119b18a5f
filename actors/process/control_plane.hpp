// CAF between the processes of a run: over TLS, where both ends show a certificate that the run's
// own authority has signed (runtime/process/credentials.hpp).
//
// CAF's wire authenticates nobody by itself and believes the lengths that it is told, so nothing is
// published without, unless the user has said so (docs/decisions/0026-processes.md).

#pragma once

#include "messages/protocol/actors.hpp"
#include "runtime/trainer/job.hpp"

#include <caf/fwd.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::actors {

struct control_settings {
  std::filesystem::path credentials;  ///< the run's folder of them
  /// Seconds without any sign of a process, after which it counts as gone; all of a run have the
  /// same.
  double suspicion = 10;
  /// Without TLS: who reaches a port is let in, and may start programs and read and change
  /// everything. Both ends have to say so; the credentials are not read.
  bool insecure = false;
};

/// Threads of an actor system that actors which hang may hold until its end: one for each restart
/// that is allowed, and one for the hang after which the run ends, at most 64. Where more hang the
/// run ends for that (HANG-2).
int spare_threads(const runtime::recovery_settings& x);

/// Of the actor system of a process. Whoever hangs in a handler holds a thread: so many are there
/// besides those that its actors share; they sleep until there is work for them. With a control
/// plane others can be connected with; throws input_error as read_credentials does.
std::unique_ptr<caf::actor_system_config> make_configuration(
    int spare_threads, const std::optional<control_settings>& control = {});

/// Where others reach this actor of ours, on that numeric address; returns the port, which the
/// system has chosen. Throws io_error.
std::uint16_t publish(const messages::rendezvous_actor& whom, const std::string& address);
std::uint16_t publish(const messages::connector_actor& whom, const std::string& address);
/// On that port, if it is not 0.
std::uint16_t publish(const messages::standing_node_actor& whom,
                      const std::string& address,
                      std::uint16_t port);

/// Nobody reaches it any more, the last of its process, and callers who have not shown yet who they
/// are hear no more. After its end: CAF's broker then has read everything that it was told about
/// it. What it has not read when the actor system ends holds the actor, and with it a thread that
/// the system waits for.
void unpublish(const messages::agent_actor& whom);
void unpublish(const messages::connector_actor& whom);
void unpublish(const messages::standing_node_actor& whom);

/// The actor that is published there. Blocks, no longer than that. Throws io_error: nobody listens,
/// or does not answer, or he belongs to another run, or is another kind of actor.
messages::rendezvous_actor rendezvous_at(caf::actor_system& system,
                                         const std::string& address,
                                         std::uint16_t port,
                                         std::chrono::milliseconds patience);
messages::connector_actor connector_at(caf::actor_system& system,
                                       const std::string& address,
                                       std::uint16_t port,
                                       std::chrono::milliseconds patience);
/// Where nobody answers it says what the system says of that port, and may take twice as long.
messages::standing_node_actor standing_node_at(caf::actor_system& system,
                                               const std::string& address,
                                               std::uint16_t port,
                                               std::chrono::milliseconds patience);

/// The same for an actor, which is not held up: `found` is called by a handler of `caller`, or
/// never. Who connects for the whole process waits meanwhile for as long as the system does, so
/// somebody has to listen there (require_listener).
void find_standing_node(messages::launcher_actor::pointer caller,
                        const std::string& address,
                        std::uint16_t port,
                        std::chrono::milliseconds patience,
                        const std::function<void(const messages::standing_node_actor&)>& found);

}  // namespace troupe::actors
