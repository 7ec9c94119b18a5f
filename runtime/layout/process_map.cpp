#include "runtime/layout/process_map.hpp"

#include <algorithm>
#include <map>

namespace troupe::runtime {

// The processes in the order of their hosts, turned by the size of the largest host: who stands
// there is on another host wherever no host has more than half of all.
std::vector<int> keepers_of(const std::vector<std::string>& hosts) {
  const auto n = int(hosts.size());
  if (n < 2)
    return {};
  std::map<std::string, std::vector<int>> by_host;
  for (int p = 0; p < n; ++p)
    by_host[hosts[std::size_t(p)]].push_back(p);
  std::vector<int> order;
  std::size_t largest = 0;
  for (const auto& [host, all] : by_host) {
    order.insert(order.end(), all.begin(), all.end());
    largest = std::max(largest, all.size());
  }
  const auto turn = by_host.size() == 1 ? 1 : int(largest);
  std::vector<int> out(hosts.size());
  for (int i = 0; i < n; ++i)
    out[std::size_t(order[std::size_t(i)])] = order[std::size_t((i + turn) % n)];
  return out;
}

}  // namespace troupe::runtime
