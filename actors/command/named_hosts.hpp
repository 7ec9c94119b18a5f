// Hosts on the command line: lists with the number of processes of each, and their failure domains.

#pragma once

#include "runtime/layout/placement.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::command {

/// "a:7000*2,b:7000": names, and slots where a number is given, otherwise 0. A word that is no
/// number gives -1, for complaint_about_slots.
std::vector<runtime::host_slots> read_hosts(const std::string& list);

/// The number of processes that such a list asks for: without numbers, one on each host.
std::int64_t processes_on(const std::vector<runtime::host_slots>& hosts);

/// Why the processes do not fit the list, as a sentence; empty: they do. `flag`: "--nodes".
std::string complaint_about_slots(std::string_view flag,
                                  const std::vector<runtime::host_slots>& hosts,
                                  std::int64_t processes);

/// Sets all slots: as given, one where only others have a number, or else an equal share.
void share_processes(std::vector<runtime::host_slots>& hosts, int processes);

/// Sets the failure domains from a file with lines "HOST DOMAIN"; '#' begins a comment. A port in
/// the name of a host is ignored. `names`: other names of the hosts, in order; may be empty. Throws
/// usage_error for an unreadable file, a malformed line, and a host without a domain.
void read_domains(const std::filesystem::path& file,
                  std::vector<runtime::host_slots>& hosts,
                  const std::vector<std::string>& names = {});

/// "10.0.0.1" of "10.0.0.1:7000", "::1" of "[::1]:7000".
std::string without_port(const std::string& name);

}  // namespace troupe::command
