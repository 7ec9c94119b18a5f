#include "runtime/layout/process_map.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* process_has_ranks
    = "PLACED-1: processes are numbered from 0, and each has a rank";

std::vector<int> contiguous(int world, int processes) {
  std::vector<int> out;
  for (int rank = 0; rank < world; ++rank)
    out.push_back(int((std::int64_t(rank + 1) * processes - 1) / world));
  return out;
}

}  // namespace

process_map::process_map(std::vector<int> table) : table_(std::move(table)) {
  for (int rank = 0; rank < int(table_.size()); ++rank) {
    const int process = process_of(rank);
    ensure(process >= 0 && process < int(table_.size()), process_has_ranks);
    ranks_.resize(std::max(ranks_.size(), std::size_t(process) + 1));
    ranks_[std::size_t(process)].push_back(rank);
  }
  ensure(std::ranges::none_of(ranks_, &std::vector<int>::empty), process_has_ranks);
}

process_map::process_map(int world, int processes) : process_map(contiguous(world, processes)) {}

// Sorts the processes by host and rotates the list by the size of the largest host. The keeper is
// then on another host, unless one host has more than half of all processes.
std::vector<int> keepers_of(const std::vector<std::string>& hosts) {
  const auto n = int(hosts.size());
  if (n < 2)
    return {};
  std::map<std::string, std::size_t> number_of;  // index in order of first appearance
  std::vector<std::vector<int>> by_host;
  for (int p = 0; p < n; ++p) {
    const auto number = number_of.emplace(hosts[std::size_t(p)], by_host.size()).first->second;
    by_host.resize(std::max(by_host.size(), number + 1));
    by_host[number].push_back(p);
  }
  std::vector<int> order;
  std::size_t largest = 0;
  for (const auto& all : by_host) {
    order.insert(order.end(), all.begin(), all.end());
    largest = std::max(largest, all.size());
  }
  const auto turn = by_host.size() == 1 ? 1 : int(largest);
  std::vector<int> out(hosts.size());
  for (int i = 0; i < n; ++i)
    out[std::size_t(order[std::size_t(i)])] = order[std::size_t((i + turn) % n)];
  return out;
}

namespace {

bool is_beside(int process, int keeper, const std::vector<std::string>& hosts) {
  return hosts[std::size_t(process)] == hosts[std::size_t(keeper)];
}

int kept_beside(const std::vector<int>& keepers, const std::vector<std::string>& hosts) {
  int out = 0;
  for (int p = 0; p < int(keepers.size()); ++p)
    out += is_beside(p, keepers[std::size_t(p)], hosts) ? 1 : 0;
  return out;
}

/// Swaps the keeper of `p` with that of another process if fewer states then stay on their own
/// host.
void exchange(int p, std::vector<int>& keepers, const std::vector<std::string>& hosts) {
  const auto now = kept_beside(keepers, hosts);
  auto& own = keepers[std::size_t(p)];
  for (int q = 0; q < int(keepers.size()); ++q) {
    auto& other = keepers[std::size_t(q)];
    if (q == p || own == q || other == p)
      continue;
    std::swap(own, other);
    if (kept_beside(keepers, hosts) < now)
      return;
    std::swap(own, other);
  }
}

}  // namespace

std::vector<int> keepers_again(const std::vector<int>& before,
                               const std::vector<std::string>& hosts) {
  auto anew = keepers_of(hosts);
  if (before.size() != hosts.size())
    return anew;
  auto out = before;
  for (int p = 0; p < int(out.size()); ++p)
    if (is_beside(p, out[std::size_t(p)], hosts))
      exchange(p, out, hosts);
  return kept_beside(anew, hosts) < kept_beside(out, hosts) ? anew : out;
}

}  // namespace troupe::runtime
