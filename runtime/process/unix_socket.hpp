// Unix sockets by a name in a folder, with paths of any length (a socket address holds 108 bytes).

#pragma once

#include "runtime/process/descriptor.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>

namespace troupe::runtime {

/// Listens as `name` in the folder and replaces a socket left there. The folder's permissions
/// decide which users may connect. Non-blocking. Throws io_error.
descriptor listen_in(const std::filesystem::path& folder, const std::string& name);

/// Throws io_error when no process listens.
descriptor connect_in(const std::filesystem::path& folder, const std::string& name);

/// The next connection of a process of this user; empty if none waits. A connection of another user
/// is closed and described in `refused`. Non-blocking.
descriptor accept_own_user(const descriptor& listening, std::string& refused);

/// The user of the process at the other end of a Unix socket; empty if the system does not tell.
std::optional<uid_t> user_of_peer(int connection);

/// Two connected sockets. Both are closed on exec.
std::pair<descriptor, descriptor> socket_pair();

void make_non_blocking(const descriptor& x);

}  // namespace troupe::runtime
