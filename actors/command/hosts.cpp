#include "actors/command/hosts.hpp"

#include "actors/command/named_hosts.hpp"
#include "actors/command/readers.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/settings/layout.hpp"
#include "runtime/process/host_address.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <utility>

namespace troupe::command {
namespace {

/// This host's address on the routes to all nodes. Throws usage_error if they differ.
std::string address_for(const std::vector<actors::standing_node_address>& nodes) {
  std::string out, first;
  for (const auto& x : nodes) {
    const auto own = runtime::own_address_towards(x.address);
    if (out.empty()) {
      out = own;
      first = x.name;
    } else if (own != out) {
      throw usage_error(
          "this host has the address {} for the node at {}, but {} for the node at {}: name all "
          "nodes in one network, or give --local-addr an address that all nodes reach",
          out,
          first,
          own,
          x.name);
    }
  }
  return out;
}

void add_malformed(const char* flag,
                   const std::vector<runtime::host_slots>& nodes,
                   std::vector<std::string>& to) {
  for (const auto& node : nodes)
    try {
      runtime::read_host_and_port(node.name);
    } catch (const runtime::input_error& failure) {
      to.push_back(fmt::format("{}: {}", flag, failure.what()));
    }
}

/// Slots and failure domains are set.
struct listed_nodes {
  std::vector<runtime::host_slots> nodes, spares;
};
listed_nodes listed_in(const host_flags& flags,
                       int processes,
                       const std::vector<launched_host>& launched) {
  listed_nodes out{read_hosts(flags.nodes), read_hosts(flags.spare_nodes)};
  share_processes(out.nodes, processes);
  std::vector<std::string> names;
  for (std::size_t h = 0; h < launched.size(); ++h) {
    out.nodes[h].domain = launched[h].domain;
    names.push_back(launched[h].name);
  }
  int most = 1;
  for (const auto& x : out.nodes)
    most = std::max(most, x.slots);
  for (auto& x : out.spares)
    x.slots = x.slots == 0 ? most : x.slots;
  if (!flags.failure_domains.empty()) {
    read_domains(flags.failure_domains, out.nodes, names);
    read_domains(flags.failure_domains, out.spares);
  }
  return out;
}

actors::standing_node_address node_named(const char* flag, const runtime::host_slots& x) {
  const auto where = runtime::read_host_and_port(x.name);
  try {
    return {x.name, runtime::numeric_address(where.host), where.port, x.slots, x.domain};
  } catch (const runtime::input_error& failure) {
    throw usage_error("{} {}: {}", flag, x.name, failure.what());
  }
}

/// The node of `all` with the same address and port, or null.
const actors::standing_node_address* same_in(const std::vector<actors::standing_node_address>& all,
                                             const actors::standing_node_address& x) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& other) {
    return other.address == x.address && other.port == x.port;
  });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace

std::size_t nodes_of(const host_flags& flags) {
  return read_hosts(flags.nodes).size() + read_hosts(flags.spare_nodes).size();
}

int processes_of(const host_flags& flags) {
  const auto asked = std::max<std::int64_t>(1, processes_on(read_hosts(flags.nodes)));
  return int(std::min(asked, runtime::most_workers));
}

int cores_per_worker(const host_flags& flags,
                     const std::vector<launched_host>& launched,
                     int world,
                     int processes,
                     int cores) {
  auto nodes = read_hosts(flags.nodes);
  if (nodes.empty())
    return std::max(1, cores / world);
  share_processes(nodes, processes);
  struct host {
    std::int64_t cores = 0, processes = 0;
  };
  std::map<std::string, host> hosts;
  for (std::size_t h = 0; h < nodes.size(); ++h) {
    const auto name = without_port(nodes[h].name);
    auto& it = hosts[runtime::is_loopback(name) ? "localhost" : name];
    it.processes += std::max(1, nodes[h].slots);
    it.cores = h < launched.size() && launched[h].cores > 0 ? launched[h].cores : cores;
  }
  std::int64_t out = std::numeric_limits<int>::max();
  for (const auto& [name, it] : hosts)
    out = std::min(out, it.cores * processes / (it.processes * world));
  return int(std::max<std::int64_t>(1, out));
}

std::vector<std::string> complaints_about(const host_flags& flags, int processes) {
  std::vector<std::string> out;
  const auto nodes = read_hosts(flags.nodes), spares = read_hosts(flags.spare_nodes);
  if (nodes.empty()) {
    for (const auto& [given, flag] :
         {std::pair(!flags.credentials.empty(), "--credentials"),
          std::pair(!flags.local_address.empty(), "--local-addr"),
          std::pair(!flags.spare_nodes.empty(), "--spare-nodes"),
          std::pair(!flags.failure_domains.empty(), "--failure-domains")})
      if (given)
        out.push_back(fmt::format("{} needs --nodes: give --nodes, or leave it out", flag));
    if (flags.insecure && processes == 1)
      out.emplace_back("--insecure is for several processes, but this run has one: leave it out");
    return out;
  }
  add_malformed("--nodes", nodes, out);
  add_malformed("--spare-nodes", spares, out);
  if (processes == 1)
    out.push_back(fmt::format(
        "--nodes names {}, but a run of one process runs where its command is: give --processes 2 "
        "or more, or leave out --nodes",
        nodes.size() == 1 ? "one node" : fmt::format("{} nodes", nodes.size())));
  else if (auto complaint = complaint_about_slots("--nodes", nodes, processes); !complaint.empty())
    out.push_back(std::move(complaint));
  if (auto complaint = complaint_about_slots("--spare-nodes", spares, processes_on(spares));
      !complaint.empty())
    out.push_back(std::move(complaint));
  if (flags.credentials.empty() && !flags.insecure)
    out.emplace_back(
        "--nodes needs --credentials DIR, created by `troupe credentials DIR` and copied to every "
        "host; or, in an isolated network, --insecure here and on each node");
  if (!flags.credentials.empty() && flags.insecure)
    out.emplace_back("--credentials and --insecure exclude each other: give one of them");
  return out;
}

run_hosts find_hosts(const host_flags& flags,
                     int processes,
                     const std::vector<launched_host>& launched) {
  run_hosts out{.credentials = flags.credentials, .insecure = flags.insecure};
  const auto all_listed = listed_in(flags, processes, launched);
  for (const auto& x : all_listed.nodes) {
    const auto& name = x.name;
    auto node = node_named("--nodes", x);
    if (const auto* const other = same_in(out.nodes, node))
      throw usage_error(
          "--nodes names the node at {} twice{}: for two processes there write {}*2, or start "
          "another node there on another port",
          name,
          other->name == name ? "" : ", also as " + other->name,
          name);
    out.nodes.push_back(std::move(node));
  }
  if (out.nodes.empty())
    return out;
  for (const auto& x : all_listed.spares) {
    const auto& name = x.name;
    auto node = node_named("--spare-nodes", x);
    if (same_in(out.nodes, node) != nullptr)
      throw usage_error(
          "--spare-nodes names the node at {}, which is also in --nodes: name another one", name);
    if (same_in(out.spares, node) != nullptr)
      throw usage_error("--spare-nodes names the node at {} twice: name it once", name);
    out.spares.push_back(std::move(node));
  }
  auto all = out.nodes;
  all.insert(all.end(), out.spares.begin(), out.spares.end());
  if (!flags.local_address.empty())
    out.address = runtime::numeric_address(flags.local_address);
  else
    out.address = address_for(all);
  return out;
}

std::vector<runtime::host_slots> hosts_of(const host_flags& flags,
                                          int processes,
                                          const std::vector<launched_host>& launched) {
  auto out = listed_in(flags, processes, launched).nodes;
  for (auto& x : out)
    x.name = runtime::read_host_and_port(x.name).host;
  return out;
}

std::vector<runtime::host_slots> hosts_of(const run_hosts& hosts) {
  std::vector<runtime::host_slots> out;
  for (const auto& x : hosts.nodes)
    out.push_back({x.address, x.slots, x.domain});
  return out;
}

void warn_if_insecure(bool insecure) {
  if (insecure)
    runtime::log_warning(
        "--insecure: no TLS and no authentication between processes; anyone who reaches these "
        "ports can read and change this run, and run programs as this user");
}

}  // namespace troupe::command
