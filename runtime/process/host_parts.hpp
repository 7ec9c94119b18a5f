// Processes that a run or a standing node (`troupe node`) started on its host, found by their
// command lines. The entries in its folder hold pids of that host's own namespace, which can differ
// from those seen here.
//
// Linux: proc(5), /proc/PID/cmdline; pid_namespaces(7).

#pragma once

#include "runtime/process/process_id.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The command line of a process that a run starts, "troupe:agent" or "troupe:node".
struct part_line {
  std::string name;               ///< for example "agent" or "node-1"
  std::string folder;             ///< as written in the command line
  std::uint64_t incarnation = 0;  ///< of a node; else 0
  bool operator==(const part_line&) const = default;
};
/// Empty if the command line is of another kind.
std::optional<part_line> read_part_line(const std::vector<std::string>& words);

/// The folder that a standing node got by `flag`; empty if it is not a standing node or has no such
/// flag.
std::optional<std::string> folder_of_standing_node(const std::vector<std::string>& words,
                                                   const std::string& flag);

struct host_part {
  std::string name;  ///< "agent", "node-1"
  process_id process;
  std::uint64_t incarnation = 0;
  bool operator==(const host_part&) const = default;
};
/// Running processes of that folder, by name; the newest of several with one name.
std::vector<host_part> parts_of_host(const std::filesystem::path& folder);
/// All running processes of that folder.
std::vector<process_id> processes_of_host(const std::filesystem::path& folder);
/// True if a run of that folder has started the process. The folder may be gone.
bool is_part_of(const std::filesystem::path& folder, pid_t pid);

/// The standing node that got that folder by `flag`; empty if none runs here.
std::optional<process_id> standing_node_of(const std::filesystem::path& folder,
                                           const std::string& flag);

}  // namespace troupe::runtime
