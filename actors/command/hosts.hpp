// The hosts of a run over several hosts: flags for their nodes, addresses and credentials.

#pragma once

#include "actors/process/launch_settings.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/layout/placement.hpp"

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::command {

/// A node that a launch has started.
struct launched_host {
  std::string name;         ///< of its host
  std::string domain = {};  ///< failure domain that the launcher tells; may be empty
  int cores = 0;            ///< 0: not told
};

/// The settings as written on the command line.
struct host_flags {
  std::string nodes;        ///< "HOST:PORT,HOST:PORT*2"; empty: this host only
  std::string spare_nodes;  ///< the same; may be empty
  std::filesystem::path failure_domains;
  std::filesystem::path credentials;
  std::string local_address;
  bool insecure = false;
  std::filesystem::path host_file;  ///< runtime/launch/host_file.hpp; may be empty
  std::string ssh_command = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15";
  std::string interface;  ///< network interface for other hosts; empty: by name or route
  double launch_timeout = 60;

  static constexpr auto fields() {
    using runtime::row;
    using x = host_flags;
    return std::tuple(
        row("nodes", &x::nodes)
            .own_flag({.name = "--nodes",
                       .type = "HOST:PORT,...",
                       .default_value = "all processes on this host",
                       .help = "Hosts of the processes, in order. Each must run `troupe node "
                               "--listen HOST:PORT` and gets an equal share of --processes, or N "
                               "of them with HOST:PORT*N."}),
        row("spare_nodes", &x::spare_nodes)
            .own_flag({.name = "--spare-nodes",
                       .type = "HOST:PORT,...",
                       .default_value = "none",
                       .help = "With --nodes: spare nodes. When a host is lost, its processes "
                               "continue on the first spare node that is alive, or else beside "
                               "others. HOST:PORT*N takes N, other spare nodes as many as the "
                               "largest node."}),
        row("failure_domains", &x::failure_domains)
            .own_flag({.name = "--failure-domains",
                       .type = "FILE",
                       .default_value = "each host alone",
                       .help = "With --nodes: lines 'HOST DOMAIN', such as 'host-1 rack-1', for "
                               "all nodes. The states of a process are kept in another domain, and "
                               "hosts of a domain follow each other."}),
        row("credentials", &x::credentials)
            .own_flag({.name = "--credentials",
                       .type = "DIR",
                       .default_value = "the run creates its own",
                       .help = "With --nodes: folder of credentials, created by `troupe "
                               "credentials DIR` and copied to every host."}),
        row("local_addr", &x::local_address)
            .own_flag({.name = "--local-addr",
                       .type = "ADDRESS",
                       .default_value = "the one on the route to the nodes",
                       .help = "With --nodes: address of this host for the nodes."}),
        row("insecure", &x::insecure)
            .own_flag({.name = "--insecure",
                       .help = "Sends messages between processes without TLS, including the secret "
                               "of the data plane. Anyone who reaches a port can read and change "
                               "the run, and run programs as its user. Only for an isolated "
                               "network; the nodes need this flag, too."}),
        row("host_file", &x::host_file)
            .own_flag({.name = "--hostfile",
                       .type = "FILE",
                       .default_value = "no other host is started",
                       .help = "Hosts, one a line: HOST slots=WORKERS. This command starts a node "
                               "on each by --ssh-command, and ends it after the run."}),
        row("ssh_command", &x::ssh_command)
            .own_flag({.name = "--ssh-command",
                       .type = "COMMAND",
                       .help = "With --hostfile: runs a command on a host. A shell calls it with "
                               "two more words: the host, and the command."}),
        row("interface", &x::interface)
            .own_flag({.name = "--interface",
                       .type = "NAME",
                       .default_value = "the one that the host's name or the route tells",
                       .help = "Network interface, such as ib0, at which each host of a launch or "
                               "of --hostfile listens."}),
        row("launch_timeout", &x::launch_timeout)
            .own_flag({.name = "--launch-timeout",
                       .type = "SECONDS",
                       .unit = "seconds",
                       .help = "How long the processes of srun, mpirun or torchrun wait for each "
                               "other, and --hostfile for its nodes.",
                       .range = runtime::real_range{.least = 0.1, .most = 1e6}}));
  }
};

/// The number of nodes, also of spare ones.
std::size_t nodes_of(const host_flags& flags);
/// The number of processes that --nodes asks for; 1 without it.
int processes_of(const host_flags& flags);

/// The cores for each worker, at least 1: those of its host divided by the workers there, the least
/// of all hosts. Hosts that have not told theirs count as `cores`.
int cores_per_worker(const host_flags& flags,
                     const std::vector<launched_host>& launched,
                     int world,
                     int processes,
                     int cores);

/// Contradictions of the flags, as sentences. `processes`: number of processes of the job.
std::vector<std::string> complaints_about(const host_flags& flags, int processes);

/// The places of a run's processes, which are not part of the job.
struct run_hosts {
  std::vector<actors::standing_node_address> nodes;   ///< empty: this host only
  std::vector<actors::standing_node_address> spares;  ///< spare nodes, without a process at first
  std::filesystem::path credentials;                  ///< empty: the run creates its own
  std::string address = "127.0.0.1";                  ///< numeric address of this host for nodes
  bool insecure = false;
};

/// Resolves the names and finds this host's own address. Throws usage_error for a node that has no
/// address, is named twice, or sees this host at another address than the other nodes do.
run_hosts find_hosts(const host_flags& flags,
                     int processes,
                     const std::vector<launched_host>& launched = {});

/// The hosts of --nodes by their names; empty: all processes are on this host. One host with two
/// names counts as two until its processes report their host name. Throws as read_domains.
std::vector<runtime::host_slots> hosts_of(const host_flags& flags,
                                          int processes,
                                          const std::vector<launched_host>& launched = {});
std::vector<runtime::host_slots> hosts_of(const run_hosts& hosts);

/// Warns of the risks of --insecure, if it was given.
void warn_if_insecure(bool insecure);

}  // namespace troupe::command
