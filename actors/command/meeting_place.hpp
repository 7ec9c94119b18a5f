// The meeting place of a launch: a folder that all see, or the address in the environment.

#pragma once

#include "actors/command/flags.hpp"
#include "runtime/launch/launch_environment.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::command {

struct meeting_place {
  std::filesystem::path folder;       ///< that all see; empty: `address` and `port` are told
  std::filesystem::path credentials;  ///< given by the user; empty: those of the folder, or none
  std::string address;
  std::uint16_t port = 0;
};

/// Throws usage_error with what to do, if there is no common secret or no address.
meeting_place meeting_place_of(const runtime::launch_environment& by, const training_flags& flags);

/// True if the launcher says so.
bool is_on_one_host(const runtime::launch_environment& by);

/// The numeric address of this host, of rank 0, for the others. Throws input_error.
std::string address_of_rank_0(const runtime::launch_environment& by,
                              const training_flags& flags,
                              const meeting_place& where);

}  // namespace troupe::command
