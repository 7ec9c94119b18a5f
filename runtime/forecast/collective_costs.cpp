#include "runtime/forecast/collective_costs.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {

collective_costs::collective_costs(const cluster_outline& on, double share)
    : on_(on), share_(share) {}

/// Bytes per second of a group over the rails of one host.
double collective_costs::rate_between(int local) const {
  return share_ * on_.between.bandwidth * on_.rails * local / on_.devices_per_host;
}

/// Cost of the slowest link of a ring.
double collective_costs::rate(group_span among) const {
  const double inside = share_ * on_.inside.bandwidth;
  if (among.hosts == 1)
    return inside;
  const double between = rate_between(among.local);
  return among.local > 1 ? std::min(inside, between) : between;
}

double collective_costs::all_gather(double bytes, group_span among) const {
  if (among.size == 1)
    return 0;
  const double n = among.size, hops_between = among.hosts > 1 ? among.hosts : 0;
  return bytes * (n - 1) / n / rate(among) + (n - 1 - hops_between) * on_.inside.latency
         + hops_between * on_.between.latency;
}

double collective_costs::all_reduce(double bytes, group_span among) const {
  if (among.size == 1)
    return 0;
  const double n = among.size, per_host = std::max(1.0, n / among.hosts);
  const double in_tree
      = 2
        * (bytes * (n - 1) / n / rate(among) + std::ceil(std::log2(per_host)) * on_.inside.latency
           + std::ceil(std::log2(double(among.hosts))) * on_.between.latency);
  return std::min(2 * all_gather(bytes, among), in_tree);
}

double collective_costs::all_to_all(double bytes, group_span among) const {
  if (among.size == 1)
    return 0;
  const double n = among.size, near = bytes * (among.local - 1) / n,
               far = bytes * (n - among.local) / n;
  const double inside = near / (share_ * on_.inside.bandwidth) + on_.inside.latency;
  if (among.hosts == 1)
    return inside;
  return std::max(inside, far / rate_between(1) + on_.between.latency);
}

double collective_costs::transfer(double bytes, bool between_hosts) const {
  return between_hosts ? bytes / rate_between(1) + on_.between.latency
                       : bytes / (share_ * on_.inside.bandwidth) + on_.inside.latency;
}

}  // namespace troupe::runtime
