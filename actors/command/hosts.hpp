// The hosts of a run that has several: which nodes stand there, and what they and this process know
// each other by.

#pragma once

#include "actors/command/command_line.hpp"
#include "actors/process/launch_settings.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::command {

/// As written on the command line.
struct host_flags {
  std::string nodes;        ///< "HOST:PORT,HOST:PORT"; empty: all is on this host
  std::string spare_nodes;  ///< the same; empty: none
  std::filesystem::path credentials;
  std::string local_address;
  bool insecure = false;
};

void declare_hosts(command_line& line, host_flags& to);

/// The names of the nodes that have places.
std::vector<std::string> node_names(const host_flags& flags);

/// What contradicts itself, in sentences. `processes`: of the job.
std::vector<std::string> complaints_about(const host_flags& flags, int processes);

/// What is no part of a job: where its processes are.
struct run_hosts {
  std::vector<actors::standing_node_address> nodes;   ///< none: this host alone
  std::vector<actors::standing_node_address> spares;  ///< that have no place at first
  std::filesystem::path credentials;                  ///< empty: the run makes its own
  std::string address = "127.0.0.1";                  ///< numeric, of this host, for the others
  bool insecure = false;
};

/// Looks names up and finds this host's own address. Throws usage_error that names the node which
/// has none, is there twice, or is not reached from the same address as the others.
run_hosts find_hosts(const host_flags& flags);

/// Of each process the host that was named, equal for those of one; none: all are on this one.
/// One host by two names counts as two until its processes have told what it is called.
std::vector<std::string> hosts_of(const host_flags& flags);
std::vector<std::string> hosts_of(const run_hosts& hosts);

/// Says what --insecure gives up, if it was given.
void warn_if_insecure(bool insecure);

}  // namespace troupe::command
