#include "actors/process/released_nodes.hpp"

#include "actors/process/control_plane.hpp"
#include "actors/process/launch_sites.hpp"
#include "messages/control/standing.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/trainer/build.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <chrono>

namespace troupe::actors {
namespace {

constexpr auto patience = std::chrono::seconds(1);  // with each

}  // namespace

// As a launcher that comes after all others, and is gone at once, with nobody to succeed it.
void release_nodes(const std::vector<standing_node_address>& nodes,
                   const std::filesystem::path& run,
                   double suspicion,
                   bool insecure) {
  try {
    const auto folder = runtime::run_folder::open(run);
    const auto last = runtime::find_rendezvous(folder);
    if (!last)
      return;
    const auto config
        = make_configuration(0, control_settings{folder.credentials(), suspicion, insecure});
    caf::actor_system system(*config);
    caf::scoped_actor by(system);
    messages::serve order{.program = runtime::version_text(),
                          .run = folder.record().id,
                          .suspicion = suspicion,
                          .incarnation = last->incarnation + 2,  // one may be on its way
                          .address = last->address,
                          .port = last->port,
                          .launcher = caf::actor_cast<messages::launcher_actor>(by.ptr())};
    for (const auto& node : connect_with_those_there(system, nodes, patience))
      if (node)
        by->request(node, patience, order)
            .receive([](const messages::serving&) {},
                     [](const caf::error&) {});  // it serves another run by now
  } catch (const runtime::error& failure) {
    runtime::log_warning("nodes of this run are not told that it is over: {}", failure.what());
  }
}

}  // namespace troupe::actors
