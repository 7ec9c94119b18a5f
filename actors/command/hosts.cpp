#include "actors/command/hosts.hpp"

#include "actors/command/readers.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/host_address.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>
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

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    out.push_back(word);
  if (list.ends_with(','))
    out.emplace_back();
  return out;
}

void add_malformed_addresses(const char* flag,
                             const std::vector<std::string>& names,
                             std::vector<std::string>& to) {
  for (const auto& name : names)
    try {
      runtime::read_host_and_port(name);
    } catch (const runtime::input_error& failure) {
      to.push_back(fmt::format("{}: {}", flag, failure.what()));
    }
}

actors::standing_node_address node_named(const char* flag, const std::string& name) {
  const auto where = runtime::read_host_and_port(name);
  try {
    return {name, runtime::numeric_address(where.host), where.port};
  } catch (const runtime::input_error& failure) {
    throw usage_error("{} {}: {}", flag, name, failure.what());
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

std::vector<std::string> node_names(const host_flags& flags) {
  return names_in(flags.nodes);
}

std::vector<std::string> complaints_about(const host_flags& flags, int processes) {
  std::vector<std::string> out;
  const auto names = node_names(flags);
  if (names.empty()) {
    if (!flags.credentials.empty())
      out.emplace_back("--credentials needs --nodes: give --nodes, or leave it out");
    if (!flags.local_address.empty())
      out.emplace_back("--local-addr needs --nodes: give --nodes, or leave it out");
    if (!flags.spare_nodes.empty())
      out.emplace_back("--spare-nodes needs --nodes: give --nodes, or leave it out");
    if (flags.insecure && processes == 1)
      out.emplace_back("--insecure is for several processes, but this run has one: leave it out");
    return out;
  }
  add_malformed_addresses("--nodes", names, out);
  add_malformed_addresses("--spare-nodes", names_in(flags.spare_nodes), out);
  if (names.size() == 1)
    out.emplace_back(
        "--nodes names one node, but a run of one process runs where its command is: name two or "
        "more nodes, or leave it out");
  else if (names.size() != std::size_t(processes))
    out.push_back(
        fmt::format("--nodes names {} nodes, but the run has {} processes (--processes): each node "
                    "has one process; name as many nodes, or leave out --processes",
                    names.size(),
                    processes));
  if (flags.credentials.empty() && !flags.insecure)
    out.emplace_back(
        "--nodes needs --credentials DIR, created by `troupe credentials DIR` and copied to every "
        "host; or, in an isolated network, --insecure here and on each node");
  if (!flags.credentials.empty() && flags.insecure)
    out.emplace_back("--credentials and --insecure exclude each other: give one of them");
  return out;
}

run_hosts find_hosts(const host_flags& flags) {
  run_hosts out{.credentials = flags.credentials, .insecure = flags.insecure};
  for (const auto& name : node_names(flags)) {
    auto node = node_named("--nodes", name);
    if (const auto* const other = same_in(out.nodes, node))
      throw usage_error(
          "--nodes names the node at {} twice{}: each node has one process; start another node "
          "there on another port",
          name,
          other->name == name ? "" : ", also as " + other->name);
    out.nodes.push_back(std::move(node));
  }
  if (out.nodes.empty())
    return out;
  for (const auto& name : names_in(flags.spare_nodes)) {
    auto node = node_named("--spare-nodes", name);
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

std::vector<std::string> hosts_of(const host_flags& flags) {
  std::vector<std::string> out;
  for (const auto& name : node_names(flags))
    out.push_back(runtime::read_host_and_port(name).host);
  return out;
}

std::vector<std::string> hosts_of(const run_hosts& hosts) {
  std::vector<std::string> out;
  for (const auto& node : hosts.nodes)
    out.push_back(node.address);
  return out;
}

void warn_if_insecure(bool insecure) {
  if (insecure)
    runtime::log_warning(
        "--insecure: no TLS and no authentication between processes; anyone who reaches these "
        "ports can read and change this run, and run programs as this user");
}

}  // namespace troupe::command
