// What a standing node (`troupe node`) has started on its host for a run, by command lines: its
// folder's entries have the pids of that host's own namespace, which need not be those seen here.
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

/// "troupe:agent", "troupe:node": a process that a run starts, and nobody by hand.
struct part_line {
  std::string name;               ///< "agent", "node-1"
  std::string folder;             ///< as its command line has it
  std::uint64_t incarnation = 0;  ///< of a node; 0: it has none
  bool operator==(const part_line&) const = default;
};
/// Nothing: it is no part.
std::optional<part_line> read_part_line(const std::vector<std::string>& words);

/// The folder that a standing node was given by `flag`; nothing: it is no standing node, or none
/// that was given a folder.
std::optional<std::string> folder_of_standing_node(const std::vector<std::string>& words,
                                                   const std::string& flag);

struct host_part {
  std::string name;  ///< "agent", "guard", "node-1"
  process_id process;
  std::uint64_t incarnation = 0;
  bool operator==(const host_part&) const = default;
};
/// Those that run now and have that folder, by name; of a place that has several, the newest.
std::vector<host_part> parts_of_host(const std::filesystem::path& folder);
/// All of them, whatever their names.
std::vector<process_id> processes_of_host(const std::filesystem::path& folder);

/// The standing node itself, which was given its folder by `flag`; nothing: none with that folder
/// runs here.
std::optional<process_id> standing_node_of(const std::filesystem::path& folder,
                                           const std::string& flag);

}  // namespace troupe::runtime
