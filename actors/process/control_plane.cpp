#include "actors/process/control_plane.hpp"

#include "messages/core/type_ids.hpp"
#include "runtime/core/error.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/tls_errors.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor.hpp>
#include <caf/openssl/manager.hpp>
#include <caf/openssl/publish.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace troupe::actors {
namespace {

constexpr int actor_threads = 2;
/// An idle thread costs only its stack. More hung actors than this are beyond repair.
constexpr int most_spare_threads = 64;
/// Heartbeat interval, as a fraction of the failure detector's timeout.
constexpr double between_signs = 0.2;

/// Handshake timeout, as for a wire (data_planes.cpp), but at most 5 s: the end of a process may
/// wait for it.
std::chrono::milliseconds patience_with_callers(double suspicion) {
  const auto half = std::chrono::duration<double>(suspicion / 2);
  return std::min(std::chrono::ceil<std::chrono::milliseconds>(half),
                  std::chrono::milliseconds(5000));
}

caf::timespan span_of(double x) {
  return std::chrono::duration_cast<caf::timespan>(std::chrono::duration<double>(x));
}

struct configuration : caf::actor_system_config {
  configuration(int spare_threads, const std::optional<control_settings>& control) {
    messages::add_message_types(*this);
    // The sharing policy: idle workers sleep instead of polling (docs/decisions/0002-caf.md).
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", actor_threads + spare_threads);
    set("logger.verbosity", caf::atom("quiet"));
    if (!control)
      return;
    set("middleman.workers", 0);
    set("middleman.heartbeat-interval", span_of(control->suspicion * between_signs));
    set("middleman.connection-timeout", span_of(control->suspicion));
    load<caf::io::middleman>();
    if (control->insecure)
      return;
    runtime::stand_before_tls(patience_with_callers(control->suspicion));
    runtime::end_tls_when_silent(std::chrono::ceil<std::chrono::milliseconds>(
        std::chrono::duration<double>(control->suspicion)));
    runtime::read_credentials(control->credentials);  // CAF would ignore a missing file
    const auto files = runtime::credential_files_in(control->credentials);
    openssl_certificate = files.certificate.string();
    openssl_key = files.key.string();
    openssl_cafile = files.authority.string();
    load<caf::openssl::manager>();
  }
};

template <class Handle>
std::uint16_t published(const Handle& whom, const std::string& address, std::uint16_t at = 0) {
  auto& system = whom.home_system();
  const bool again = at != 0;  // reuses the address while a just ended process keeps it busy
  const auto port = system.has_openssl_manager()
                        ? caf::openssl::publish(whom, at, address.c_str(), again)
                        : system.middleman().publish(whom, at, address.c_str(), again);
  if (!port)
    throw runtime::io_error(
        "cannot listen on {}{}: {}",
        address,
        again ? fmt::format(
            ":{} (the port may be in use, or the address may belong to another host)", at)
              : "",
        system.render(port.error()));
  return *port;
}

template <class Handle>
void unpublish_last(const Handle& whom) {
  auto& system = whom.home_system();
  system.middleman().unpublish(whom);  // fails when it was not published, which is fine
  if (system.has_openssl_manager())
    runtime::hang_up_on_unknown_callers();
}

struct port_of_ours {
  const char* if_nobody;   ///< added to the system's message when no process listens
  const char* if_another;  ///< the possible reasons when the call fails after that
};
constexpr port_of_ours of_this_run{
    ". No process of this run listens there, or the network is down: `troupe status` shows whether "
    "the run is alive",
    "the network reset the connection, or the program that listens there does not answer as a "
    "process of this run: it hangs, or belongs to another run"};
constexpr port_of_ours of_these_credentials{
    "",
    "the network reset the connection, or the program that listens there has other credentials, is "
    "not a standing node of this build, or only one of the two sides is without TLS "
    "(`hosts.insecure`)"};

caf::io::middleman_actor who_connects(caf::actor_system& system) {
  return system.has_openssl_manager() ? system.openssl_manager().actor_handle()
                                      : system.middleman().actor_handle();
}

// CAF's connecting thread blocks for the system's timeout of two minutes on a silent host, and all
// other connects of this process wait for it. So the caller's own thread tests the port first.
void require_somebody(const std::string& address,
                      std::uint16_t port,
                      std::chrono::milliseconds patience,
                      const port_of_ours& as) {
  try {
    runtime::require_listener(address, port, patience);
  } catch (const runtime::io_error& nobody) {
    throw runtime::io_error("{}{}", nobody.what(), as.if_nobody);
  }
}

// caf::openssl::remote_actor would wait forever for a peer that accepts and stays silent.
template <class Handle>
Handle remote(caf::actor_system& system,
              const std::string& address,
              std::uint16_t port,
              std::chrono::milliseconds patience,
              const port_of_ours& as) {
  const auto until = std::chrono::steady_clock::now() + patience;
  require_somebody(address, port, patience, as);
  const auto left
      = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  caf::strong_actor_ptr found;
  std::set<std::string> takes;
  std::string failure;
  caf::scoped_actor caller(system, true);
  caller
      ->request(who_connects(system),
                std::max(left, std::chrono::milliseconds(1)),
                caf::connect_atom::value,
                address,
                port)
      .receive(
          [&](const caf::node_id&, caf::strong_actor_ptr& actor, std::set<std::string>& messages) {
            found = std::move(actor);
            takes = std::move(messages);
          },
          [&](const caf::error& why) { failure = system.render(why); });
  if (failure.empty() && !found)
    failure = "nothing is published there";
  else if (failure.empty() && !system.assignable(takes, system.message_types(Handle())))
    failure = "another kind of actor is published there";
  if (!failure.empty())
    throw runtime::io_error(
        "cannot connect to {}:{} ({}): {}", address, port, failure, as.if_another);
  return caf::actor_cast<Handle>(found);
}

}  // namespace

int spare_threads(const runtime::recovery_settings& x) {
  return x.on ? std::min(x.max_restarts, most_spare_threads - 1) + 1 : 0;
}

std::unique_ptr<caf::actor_system_config> make_configuration(
    int spare_threads, const std::optional<control_settings>& control) {
  return std::make_unique<configuration>(spare_threads, control);
}

std::uint16_t publish(const messages::rendezvous_actor& whom, const std::string& address) {
  return published(whom, address);
}

std::uint16_t publish(const messages::connector_actor& whom, const std::string& address) {
  return published(whom, address);
}

std::uint16_t publish(const messages::standing_node_actor& whom,
                      const std::string& address,
                      std::uint16_t port) {
  return published(whom, address, port);
}

void unpublish(const messages::agent_actor& whom) {
  unpublish_last(whom);
}

void unpublish(const messages::connector_actor& whom) {
  unpublish_last(whom);
}

void unpublish(const messages::standing_node_actor& whom) {
  unpublish_last(whom);
}

messages::rendezvous_actor rendezvous_at(caf::actor_system& system,
                                         const std::string& address,
                                         std::uint16_t port,
                                         std::chrono::milliseconds patience) {
  return remote<messages::rendezvous_actor>(system, address, port, patience, of_this_run);
}

messages::connector_actor connector_at(caf::actor_system& system,
                                       const std::string& address,
                                       std::uint16_t port,
                                       std::chrono::milliseconds patience) {
  return remote<messages::connector_actor>(system, address, port, patience, of_this_run);
}

messages::standing_node_actor standing_node_at(caf::actor_system& system,
                                               const std::string& address,
                                               std::uint16_t port,
                                               std::chrono::milliseconds patience) {
  return remote<messages::standing_node_actor>(
      system, address, port, patience, of_these_credentials);
}

void find_standing_node(messages::launcher_actor::pointer caller,
                        const std::string& address,
                        std::uint16_t port,
                        std::chrono::milliseconds patience,
                        const std::function<void(const messages::standing_node_actor&)>& found) {
  using wanted = messages::standing_node_actor;
  auto& system = caller->home_system();
  caller->request(who_connects(system), patience, caf::connect_atom::value, address, port)
      .then(
          [&system, found](
              const caf::node_id&, caf::strong_actor_ptr& actor, std::set<std::string>& messages) {
            if (actor && system.assignable(messages, system.message_types(wanted())))
              found(caf::actor_cast<wanted>(actor));
          },
          [](const caf::error&) {});
}

}  // namespace troupe::actors
