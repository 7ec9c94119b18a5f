#include "runtime/layout/placement.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace troupe::runtime {

// PLACE-2: a host has whole groups if it has a multiple of their ranks, whatever the rank order.
process_map near_ranks(const mesh& dense, int processes) {
  process_map ranges(dense.size(), processes);
  const auto first = dense.group(0, axis::tensor);
  if (first.back() == int(first.size()) - 1)  // tensor ranks are numbered first
    return ranges;
  std::vector<int> table(std::size_t(dense.size()));
  int next = 0;
  for (const auto& group : dense.groups(axis::tensor))
    for (const int rank : group)
      table[std::size_t(rank)] = ranges.process_of(next++);
  return process_map(std::move(table));
}

std::vector<int> hosts_of_processes(int processes, const std::vector<host_slots>& hosts) {
  std::map<std::string, std::size_t> number_of;  // in the order of first appearance
  std::vector<std::vector<int>> domains;         // the host of each place
  int left = processes;
  for (std::size_t h = 0; h < hosts.size() && left > 0; ++h) {
    const auto& domain = hosts[h].domain;
    const auto number
        = domain.empty() ? domains.size() : number_of.emplace(domain, domains.size()).first->second;
    domains.resize(std::max(domains.size(), number + 1));
    const int here = std::min(left, hosts[h].slots);
    domains[number].insert(domains[number].end(), std::size_t(here), int(h));
    left -= here;
  }
  ensure(left == 0, "PLACE-1: each process has a slot on a host");
  std::vector<int> out;
  for (const auto& places : domains)
    out.insert(out.end(), places.begin(), places.end());
  return out;
}

process_placement placement_of(process_map ranks, const std::vector<host_slots>& hosts) {
  auto host_of = hosts_of_processes(ranks.processes(), hosts);
  std::vector<process_site> sites;
  for (const int h : host_of) {
    const auto& host = hosts[std::size_t(h)];
    sites.emplace_back(host.name, host.domain);
  }
  return {std::move(ranks), std::move(host_of), keepers_of(sites)};
}

std::vector<host_span> spans_of(const mesh& of,
                                const process_placement& placed,
                                const std::vector<host_slots>& hosts) {
  std::map<std::string, int> numbers;
  std::vector<int> number_of;  // by process
  for (const int h : placed.host_of)
    number_of.push_back(
        numbers.emplace(hosts[std::size_t(h)].name, int(numbers.size())).first->second);
  std::vector<host_span> out;
  for (const auto& row : axis_table()) {
    if (of.extent(row.id) == 1)
      continue;
    host_span span{.along = row.id};
    for (auto& group : of.groups(row.id)) {
      std::set<int> on;
      for (const int rank : group)
        on.insert(number_of[std::size_t(placed.ranks.process_of(rank))]);
      ++span.groups;
      span.most_hosts = std::max(span.most_hosts, int(on.size()));
      if (on.size() > 1 && span.crossing++ == 0)
        span.first = std::move(group);
    }
    out.push_back(std::move(span));
  }
  return out;
}

}  // namespace troupe::runtime
