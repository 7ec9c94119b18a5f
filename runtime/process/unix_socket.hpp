// Sockets of the machine, by a name in a folder: however deep that folder is, although an address
// has but 108 bytes.

#pragma once

#include "runtime/process/descriptor.hpp"

#include <filesystem>
#include <string>
#include <utility>

namespace troupe::runtime {

/// Listens as `name` in the folder, in the place of a socket that was left there. Who may connect
/// is who may enter the folder. Not blocking. Throws io_error.
descriptor listen_in(const std::filesystem::path& folder, const std::string& name);

/// Throws io_error when nobody listens.
descriptor connect_in(const std::filesystem::path& folder, const std::string& name);

/// The next connection of another process of this user; nothing: none waits. One of another user
/// is closed, and `refused` says so. Not blocking.
descriptor accept_own_user(const descriptor& listening, std::string& refused);

/// Two ends that know each other. Neither survives exec.
std::pair<descriptor, descriptor> socket_pair();

void make_non_blocking(const descriptor& x);

}  // namespace troupe::runtime
