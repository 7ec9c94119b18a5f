#include "actors/process/data_planes.hpp"

#include "actors/node/context.hpp"
#include "actors/process/neighbours.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <chrono>
#include <memory>

namespace troupe::actors {

std::string secret_of(const std::filesystem::path& run) {
  return runtime::read_credentials(runtime::run_folder::open(run).credentials()).secret;
}

void add_data_planes(node_context& to,
                     const messages::process_name& who,
                     const data_plane_settings& how,
                     bool hosts_ranks) {
  const runtime::wire_settings settings{
      .listen_address = how.address,
      .secret = how.secret,
      .run_id = how.run_id,
      .process = who.key(),
      .handshake_within = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::duration<double>(how.suspicion / 2))};
  const auto make
      = [settings](runtime::wire_owner& owner) { return runtime::make_ucx_wire(owner, settings); };
  const auto wire = std::make_shared<runtime::wire_transport>(
      runtime::wire_transport_settings{.process = who.key()}, make);
  std::shared_ptr<runtime::windows> windows;
  if (hosts_ranks)
    windows = std::make_shared<runtime::windows>(
        runtime::window_settings{.process = who.key(), .make_wire = make});
  to.transport = wire;
  to.neighbours = std::make_shared<neighbours>(who, wire, windows);
}

}  // namespace troupe::actors
