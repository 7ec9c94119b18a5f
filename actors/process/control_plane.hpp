// CAF between the processes of a run, over TLS. Both ends show a certificate signed by the run's
// own authority (runtime/process/credentials.hpp).
//
// CAF's protocol has no authentication and trusts received lengths, so actors are published without
// TLS only on the user's request (docs/decisions/0026-processes.md).

#pragma once

#include "messages/protocol/actors.hpp"
#include "runtime/job/job.hpp"

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
  std::filesystem::path credentials;  ///< the run's credentials
  /// Seconds without a heartbeat before a process is declared dead; equal in all processes of a
  /// run.
  double suspicion = 10;
  /// Without TLS: every program that reaches a port can start programs and read and change
  /// everything. Both ends must set it; the credentials are not read.
  bool insecure = false;
};

/// Number of extra threads for actors that hang: one per allowed restart, plus one for the hang
/// that ends the run, at most 64. When more actors hang, the run ends (HANG-2).
int spare_threads(const runtime::recovery_settings& x);

/// Configuration of a process's actor system. An actor that hangs in a handler holds a thread, so
/// there are `spare_threads` extra threads, which sleep until needed. With `control`, processes can
/// connect; throws input_error as read_credentials does.
std::unique_ptr<caf::actor_system_config> make_configuration(
    int spare_threads, const std::optional<control_settings>& control = {});

/// Makes the actor reachable at that numeric address; returns the port that the system chose.
/// Throws io_error.
std::uint16_t publish(const messages::rendezvous_actor& whom, const std::string& address);
std::uint16_t publish(const messages::connector_actor& whom, const std::string& address);
/// Uses `port` if it is not 0.
std::uint16_t publish(const messages::standing_node_actor& whom,
                      const std::string& address,
                      std::uint16_t port);

/// Ends the reachability of the last published actor of its process, and disconnects callers
/// without a certificate. Call it after the actor's end: CAF's broker has then read all its
/// messages. An unread message would keep the actor alive at the end of the actor system, and the
/// system would wait for its thread.
void unpublish(const messages::agent_actor& whom);
void unpublish(const messages::connector_actor& whom);
void unpublish(const messages::standing_node_actor& whom);

/// The actor published there. Blocks for at most `patience`. Throws io_error when no process
/// listens or answers, when it belongs to another run, or when it is another kind of actor.
messages::rendezvous_actor rendezvous_at(caf::actor_system& system,
                                         const std::string& address,
                                         std::uint16_t port,
                                         std::chrono::milliseconds patience);
messages::connector_actor connector_at(caf::actor_system& system,
                                       const std::string& address,
                                       std::uint16_t port,
                                       std::chrono::milliseconds patience);
/// Without an answer, the error holds the system's reason; this may take twice as long.
messages::standing_node_actor standing_node_at(caf::actor_system& system,
                                               const std::string& address,
                                               std::uint16_t port,
                                               std::chrono::milliseconds patience);

/// Like standing_node_at, but does not block: `found` is called in a handler of `caller`, or never.
/// CAF's connecting thread waits for the system's timeout, so check first that a process listens
/// (require_listener).
void find_standing_node(messages::launcher_actor::pointer caller,
                        const std::string& address,
                        std::uint16_t port,
                        std::chrono::milliseconds patience,
                        const std::function<void(const messages::standing_node_actor&)>& found);

}  // namespace troupe::actors
