#include "actors/command/hosts.hpp"

#include "runtime/core/log.hpp"
#include "runtime/process/host_address.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>
#include <utility>

namespace troupe::command {
namespace {

/// Of this host, by the routes to all of them.
std::string address_for(const std::vector<actors::standing_node_address>& nodes) {
  std::string out, first;
  for (const auto& x : nodes) {
    const auto own = runtime::own_address_towards(x.address);
    if (out.empty()) {
      out = own;
      first = x.name;
    } else if (own != out) {
      throw usage_error(
          "this host is {} for the node at {}, and {} for that at {}: name all nodes in one "
          "network, or say by --local-addr which address of this host they all reach",
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

/// Null: it is not among them.
const actors::standing_node_address* same_in(const std::vector<actors::standing_node_address>& all,
                                             const actors::standing_node_address& x) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& other) {
    return other.address == x.address && other.port == x.port;
  });
  return at == all.end() ? nullptr : &*at;
}

void declare_nodes(command_line& line, flag_description what, std::string& to) {
  what.type = "HOST:PORT,...";
  line.value(std::move(what), text(to));
}

}  // namespace

void declare_hosts(command_line& line, host_flags& to) {
  declare_nodes(line,
                {.name = "--nodes",
                 .field = "hosts.nodes",
                 .default_value = "all processes on this host",
                 .help = "The processes stand on these hosts, the first on the first; on each "
                         "waits `troupe node --listen HOST:PORT`."},
                to.nodes);
  declare_nodes(line,
                {.name = "--spare-nodes",
                 .field = "hosts.spare_nodes",
                 .default_value = "none",
                 .help = "With --nodes: nodes that stand by. When a host is gone its process goes "
                         "on on the first of them that lives; where none is left, beside another "
                         "one."},
                to.spare_nodes);
  line.value({.name = "--credentials",
              .field = "hosts.credentials",
              .type = "DIR",
              .default_value = "the run makes its own",
              .help = "With --nodes: what nodes and this process know each other by, made by "
                      "`troupe credentials DIR` and copied to every host."},
             text(to.credentials));
  line.value({.name = "--local-addr",
              .field = "hosts.local_addr",
              .type = "ADDRESS",
              .default_value = "that from which the nodes are reached",
              .help = "With --nodes: where the nodes reach this host."},
             text(to.local_address));
  line.toggle({.name = "--insecure",
               .field = "hosts.insecure",
               .help = "Messages between processes go without TLS, the data planes' secret with "
                       "them: whoever reaches a port can read and change all of the run, and run "
                       "programs as its user. Only for a network that nobody else is in; nodes "
                       "need it, too."},
              [&to] { to.insecure = true; });
}

std::vector<std::string> node_names(const host_flags& flags) {
  return names_in(flags.nodes);
}

std::vector<std::string> complaints_about(const host_flags& flags, int processes) {
  std::vector<std::string> out;
  const auto names = node_names(flags);
  if (names.empty()) {
    if (!flags.credentials.empty())
      out.emplace_back("--credentials belongs to --nodes: give that, or leave it out");
    if (!flags.local_address.empty())
      out.emplace_back("--local-addr belongs to --nodes: give that, or leave it out");
    if (!flags.spare_nodes.empty())
      out.emplace_back("--spare-nodes belongs to --nodes: give that, or leave it out");
    if (flags.insecure && processes == 1)
      out.emplace_back("--insecure is about several processes, and this run has one: leave it out");
    return out;
  }
  add_malformed_addresses("--nodes", names, out);
  add_malformed_addresses("--spare-nodes", names_in(flags.spare_nodes), out);
  if (names.size() == 1)
    out.emplace_back(
        "--nodes names one node, and a run of one process is where its command is: name two or "
        "more, or leave it out");
  else if (names.size() != std::size_t(processes))
    out.push_back(
        fmt::format("--nodes names {} nodes, and there are {} processes (--processes): each node "
                    "has one; name as many, or leave --processes out",
                    names.size(),
                    processes));
  if (flags.credentials.empty() && !flags.insecure)
    out.emplace_back(
        "--nodes needs --credentials DIR, which `troupe credentials DIR` makes and every host has "
        "a copy of; or --insecure here and on each node, in a network that nobody else is in");
  if (!flags.credentials.empty() && flags.insecure)
    out.emplace_back("--credentials are not used with --insecure: give one of them");
  return out;
}

run_hosts find_hosts(const host_flags& flags) {
  run_hosts out{.credentials = flags.credentials, .insecure = flags.insecure};
  for (const auto& name : node_names(flags)) {
    auto node = node_named("--nodes", name);
    if (const auto* const other = same_in(out.nodes, node))
      throw usage_error(
          "--nodes names the node at {} twice{}: each has one place; start another there, with "
          "another port",
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
          "--spare-nodes names the node at {}, which --nodes gives a place: a spare is another one",
          name);
    if (same_in(out.spares, node) != nullptr)
      throw usage_error("--spare-nodes names the node at {} twice", name);
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
        "--insecure: no TLS between processes, and nobody has to show who he is. Whoever reaches "
        "these ports can read and change this run, and run programs as this user");
}

}  // namespace troupe::command
