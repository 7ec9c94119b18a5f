#include "actors/process/released_nodes.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/process/launch_sites.hpp"
#include "messages/control/standing.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/job/build.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <memory>

namespace troupe::actors {
namespace {

constexpr auto patience = std::chrono::seconds(1);  // per node
constexpr auto limit = std::chrono::seconds(3);     // for all nodes

/// Returns when CAF does, which may wait for a node that accepted the call and hangs.
void tell_all(const std::vector<standing_node_address>& nodes,
              const runtime::run_folder& run,
              double suspicion,
              bool insecure) {
  const auto place = runtime::find_rendezvous(run);
  const auto config
      = make_configuration(0, control_settings{run.credentials(), suspicion, insecure});
  caf::actor_system system(*config);
  caf::scoped_actor by(system);
  const messages::serve order{.program = runtime::version_text(),
                              .run = run.record().id,
                              .suspicion = suspicion,
                              .incarnation = place ? place->incarnation : 1,
                              .over = true,
                              .launcher = caf::actor_cast<messages::launcher_actor>(by.ptr())};
  for (const auto& node : connect_with_those_there(system, nodes, patience))
    if (node)
      by->request(node, patience, order)
          .receive([](const messages::serving&) {}, [](const caf::error&) {});
}

}  // namespace

bool release_nodes(const std::vector<standing_node_address>& nodes,
                   const std::filesystem::path& run,
                   double suspicion,
                   bool insecure) {
  const auto done = std::make_shared<std::promise<void>>();
  try {
    const auto folder = runtime::run_folder::open(run);
    if (!runtime::find_rendezvous(folder))
      return true;  // no node holds anything
    runtime::start_thread("release", [done, nodes, folder, suspicion, insecure] {
      try {
        tell_all(nodes, folder, suspicion, insecure);
      } catch (const std::exception& failure) {
        runtime::log_warning("cannot tell the nodes of this run that it is over: {}",
                             failure.what());
      }
      done->set_value();
    }).detach();
  } catch (const runtime::error& failure) {
    runtime::log_warning("cannot tell the nodes of this run that it is over: {}", failure.what());
    return true;
  }
  return done->get_future().wait_for(limit) == std::future_status::ready;
}

}  // namespace troupe::actors
