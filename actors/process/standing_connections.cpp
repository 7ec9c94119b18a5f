// A launcher's first connections with the standing nodes.

#include "actors/process/control_plane.hpp"
#include "actors/process/launch_sites.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"

#include <caf/actor_system.hpp>

#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::actors {

std::vector<messages::standing_node_actor> connect_with(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience) {
  std::vector<messages::standing_node_actor> out;
  for (const auto& x : nodes)
    try {
      out.push_back(standing_node_at(system, x.address, x.port, patience));
    } catch (const runtime::error& failure) {
      throw runtime::input_error(
          "the node at {} cannot be used: {}. A node that was started there must listen on {}",
          x.name,
          failure.what(),
          x.name);
    }
  return out;
}

std::vector<messages::standing_node_actor> connect_with_those_there(
    caf::actor_system& system,
    const std::vector<standing_node_address>& nodes,
    std::chrono::milliseconds patience) {
  std::vector<messages::standing_node_actor> out(nodes.size());
  std::vector<std::jthread> looks;  // in parallel, because a silent node takes the whole timeout
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto look
        = runtime::start_thread("search", [&x = nodes[i], &found = out[i], &system, patience] {
            try {
              found = standing_node_at(system, x.address, x.port, patience);
            } catch (const runtime::error& failure) {
              runtime::log_warning("the node at {} is not reachable: {}", x.name, failure.what());
            }
          });
    looks.push_back(std::move(look));
  }
  looks.clear();
  return out;
}

}  // namespace troupe::actors
