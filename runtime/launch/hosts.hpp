// The hosts of a run, from the lists that Slurm writes and from a file of hosts.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct launch_host {
  std::string name;   ///< a name or a numeric address, without brackets; never begins with "-"
  std::string user;   ///< for the login there; empty: the name of the user here
  int slots = 0;      ///< processes; 0: not told
  int max_slots = 0;  ///< limit of `slots`; 0: not told

  friend bool operator==(const launch_host&, const launch_host&) = default;
};

/// Expands "gpu[001-004,7],login-[a,b],x[1-2]-rack[3-4]" to gpu001, gpu002, gpu003, gpu004, gpu7,
/// login-a, ... x1-rack3, x1-rack4, x2-rack3, x2-rack4. Numbers of a range are as wide as its first
/// one. Throws input_error with `what` and the character where reading stopped.
std::vector<std::string> hosts_in_list(std::string_view text, std::string_view what);

/// Expands "2(x3),1" to 2, 2, 2, 1: the tasks of each host. Throws like hosts_in_list.
std::vector<int> counts_in_list(std::string_view text, std::string_view what);

/// Parses a file of hosts of Open MPI, or a plain list:
///
///   # comment
///   gpu001 slots=4 max_slots=8
///   user@gpu002 slots=4
///   [fd00::3]
///
/// A host with several lines has the slots of all; a line without slots adds one. Hosts are in the
/// order of their first lines. Throws input_error with "NAME:LINE:", also for a file without a
/// host.
std::vector<launch_host> hosts_in_file(std::string_view text, std::string_view name);

}  // namespace troupe::runtime
