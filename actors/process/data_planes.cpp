#include "actors/process/data_planes.hpp"

#include "actors/host/neighbours.hpp"
#include "actors/host/shared_resources.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/transport/ucx_wire.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

namespace troupe::actors {
namespace {

/// Whether the transports in UCX_TLS include shared memory; the default and lists of exclusions (^)
/// do. When they do not, as with UCX_TLS=tcp, tensors and sums within one host also go by messages.
/// A run can then be tested as if its processes were on several hosts.
bool may_share_memory() {
  static constexpr std::string_view sharing[]
      = {"all", "shm", "sm", "posix", "sysv", "cma", "knem", "xpmem"};
  const char* const told = std::getenv("UCX_TLS");
  if (told == nullptr || *told == '^')
    return true;
  std::istringstream all(told);
  for (std::string one; std::getline(all, one, ',');)
    if (std::find(std::begin(sharing), std::end(sharing), one) != std::end(sharing))
      return true;
  return false;
}

}  // namespace

std::string secret_of(const std::filesystem::path& run) {
  return runtime::read_credentials(runtime::run_folder::open(run).credentials()).secret;
}

void add_data_planes(shared_resources& to,
                     const messages::process_name& who,
                     const data_plane_settings& how,
                     bool hosts_ranks) {
  const runtime::wire_settings settings{
      .listen_address = how.address,
      .secret = how.secret,
      .run_id = how.run_id,
      .process = who.key(),
      .handshake_within = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::duration<double>(how.suspicion / 2)),
      .silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::duration<double>(how.suspicion))};
  const auto make
      = [settings](runtime::wire_owner& owner) { return runtime::make_ucx_wire(owner, settings); };
  const auto broken = std::make_shared<broken_connections>();
  const auto told = [broken](std::uint64_t key, runtime::generation_id in, const std::string& why) {
    broken->tell({process_by_key(key), in, why});
  };
  const auto wire = std::make_shared<runtime::wire_transport>(
      runtime::wire_transport_settings{
          .process = who.key(), .shares_memory = may_share_memory(), .broke = told},
      make);
  std::shared_ptr<runtime::windows> windows;
  if (hosts_ranks)
    windows = std::make_shared<runtime::windows>(
        runtime::window_settings{.process = who.key(),
                                 .shared_memory = may_share_memory(),
                                 .make_wire = make,
                                 .broke = told});
  to.transport = wire;
  to.neighbours = std::make_shared<neighbours>(who, wire, windows, broken);
}

}  // namespace troupe::actors
