#include "actors/command/meeting_place.hpp"

#include "runtime/core/error.hpp"
#include "runtime/launch/launch_folder.hpp"
#include "runtime/process/host_address.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const runtime::launch_environment& by, const fs::path& shared) {
  auto id = by.id.empty() || by.id == "none" ? fmt::format("{}-{}", by.address, by.port) : by.id;
  if (by.restarts > 0)
    id += fmt::format("-{}", by.restarts);
  return runtime::launch_folder_path(shared, id);
}

}  // namespace

bool is_on_one_host(const runtime::launch_environment& by) {
  return by.hosts.size() == 1 || by.local_world == by.world;
}

meeting_place meeting_place_of(const runtime::launch_environment& by, const training_flags& flags) {
  meeting_place out{
      .folder = {}, .credentials = flags.hosts.credentials, .address = by.address, .port = by.port};
  const auto& save = flags.job.checkpoints.save;
  if (is_on_one_host(by))
    out.folder = folder_of(by, {});
  else if (!save.empty() && flags.hosts.credentials.empty())
    out.folder = folder_of(by, save);
  else if (flags.hosts.credentials.empty() && !flags.hosts.insecure)
    throw usage_error(
        "the processes of this launch by {} run on several hosts and have no common secret: give "
        "--save a folder that all hosts see; or run `troupe credentials DIR`, copy DIR to each "
        "host "
        "with its modes, and give --credentials DIR; or, in an isolated network, --insecure",
        by.launcher);
  else if (by.address.empty())
    throw usage_error(
        "{} does not say where rank 0 is: set MASTER_ADDR and MASTER_PORT for all ranks, or give "
        "--save a folder that all hosts see, without --credentials",
        by.launcher);
  return out;
}

std::string address_of_rank_0(const runtime::launch_environment& by,
                              const training_flags& flags,
                              const meeting_place& where) {
  if (!flags.hosts.interface.empty())
    return runtime::address_of_interface(flags.hosts.interface);
  if (is_on_one_host(by))
    return "127.0.0.1";
  if (!by.address.empty())
    try {
      const auto out = runtime::numeric_address(by.address);
      // A host often has its own name at a loopback address.
      if (!runtime::is_loopback(out) || by.address == out || by.address == "localhost")
        return out;
    } catch (const runtime::input_error&) {
      if (where.folder.empty())
        throw;
    }
  return runtime::address_of_this_host();
}

}  // namespace troupe::command
