#include "runtime/layout/keepers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace troupe::runtime {
namespace {

/// Host and domain by number, in the order of first appearance.
struct numbered_site {
  int domain = 0, host = 0;
};

struct numbered_sites {
  static constexpr int same_host = 4, same_domain = 1;
  std::vector<numbered_site> all;
  std::vector<int> in_domain, on_host;  ///< number of processes

  explicit numbered_sites(const std::vector<process_site>& sites) {
    std::map<std::string, int> domains;
    std::map<std::pair<std::string, std::string>, int> hosts;
    for (const auto& x : sites) {
      const auto number = [](auto& numbers, const auto& name, std::vector<int>& counts) {
        const int out = numbers.emplace(name, int(counts.size())).first->second;
        counts.resize(std::max(counts.size(), std::size_t(out) + 1));
        ++counts[std::size_t(out)];
        return out;
      };
      all.push_back({number(domains, x.domain, in_domain),
                     number(hosts, std::pair(x.domain, x.host), on_host)});
    }
  }

  /// Cost of a keeper. The loss of a host is more likely than that of two racks.
  int nearness(int process, int keeper) const {
    const auto &a = all[std::size_t(process)], &b = all[std::size_t(keeper)];
    return a.host == b.host ? same_host : a.domain == b.domain ? same_domain : 0;
  }
  int nearness(const std::vector<int>& keepers) const {
    int out = 0;
    for (int p = 0; p < int(keepers.size()); ++p)
      out += nearness(p, keepers[std::size_t(p)]);
    return out;
  }
  bool is_one_host() const { return on_host.size() == 1; }
  /// No keepers are less near: if m of n processes share a domain or host, at least 2 m - n have
  /// their keeper in it.
  int least_nearness() const {
    const auto inside = [n = int(all.size())](const std::vector<int>& counts) {
      return std::max(0, 2 * *std::ranges::max_element(counts) - n);
    };
    return inside(in_domain) * same_domain + inside(on_host) * (same_host - same_domain);
  }
};

/// Swaps the keeper of `p` with that of another process if they then are less near. Returns by how
/// much.
int exchange(int p, std::vector<int>& keepers, const numbered_sites& sites) {
  auto& own = keepers[std::size_t(p)];
  for (int q = 0; q < int(keepers.size()); ++q) {
    auto& other = keepers[std::size_t(q)];
    if (q == p || own == q || other == p)
      continue;
    const int gain = sites.nearness(p, own) + sites.nearness(q, other) - sites.nearness(p, other)
                     - sites.nearness(q, own);
    if (gain > 0) {
      std::swap(own, other);
      return gain;
    }
  }
  return 0;
}

int largest(const std::vector<int>& counts) {
  return *std::max_element(counts.begin(), counts.end());
}

// PLACE-3. Sorts the processes by domain and host, and rotates the list by the size of the largest
// domain. The keeper is then in another domain, unless one has more than half of all processes. In
// a single domain the same is done with hosts.
std::vector<int> rotated(const numbered_sites& sites) {
  const auto n = sites.all.size();
  std::vector<int> order(n), out(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const auto &x = sites.all[std::size_t(a)], &y = sites.all[std::size_t(b)];
    return std::tuple(x.domain, x.host, a) < std::tuple(y.domain, y.host, b);
  });
  const int turn = sites.in_domain.size() > 1 ? largest(sites.in_domain)
                   : sites.is_one_host()      ? 1
                                              : largest(sites.on_host);
  for (std::size_t i = 0; i < n; ++i)
    out[std::size_t(order[i])] = order[(i + std::size_t(turn)) % n];
  return out;
}

void improve(std::vector<int>& keepers, const numbered_sites& sites) {
  int excess = sites.nearness(keepers) - sites.least_nearness();
  for (int p = 0; p < int(keepers.size()) && excess > 0; ++p)
    if (sites.nearness(p, keepers[std::size_t(p)]) > 0)
      excess -= exchange(p, keepers, sites);
}

}  // namespace

std::vector<int> keepers_of(const std::vector<process_site>& sites) {
  if (sites.size() < 2)
    return {};
  const numbered_sites numbered(sites);
  auto out = rotated(numbered);
  improve(out, numbered);
  return out;
}

std::vector<int> keepers_again(const std::vector<int>& before,
                               const std::vector<process_site>& sites) {
  auto anew = keepers_of(sites);
  if (before.size() != sites.size())
    return anew;
  const numbered_sites numbered(sites);
  auto out = before;
  improve(out, numbered);
  return numbered.nearness(anew) < numbered.nearness(out) ? anew : out;
}

}  // namespace troupe::runtime
