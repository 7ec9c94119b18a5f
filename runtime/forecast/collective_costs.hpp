// Duration of collectives by their latency and bandwidth, as rings and trees over the links of a
// cluster.
//
// A ring of n ranks moves (n - 1) / n of the array over each link in n - 1 messages (Thakur et al.,
// "Optimization of Collective Communication Operations in MPICH", 2005). A double binary tree moves
// the same in a logarithmic number (Sanders et al., "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", 2009); only sums may use it. All groups of a kind run at once, so
// a group has the share of a host's rails that its members there have of the host's devices.

#pragma once

#include "runtime/forecast/cluster.hpp"

namespace troupe::runtime {

class collective_costs {
 public:
  /// `share`: of the links' bandwidth that collectives reach.
  collective_costs(const cluster_outline& on, double share);

  /// Seconds. `bytes`: the whole array on one rank.
  double all_reduce(double bytes, group_span among) const;
  /// Also of a reduce-scatter.
  double all_gather(double bytes, group_span among) const;
  /// `bytes`: what a rank sends to all members together, itself included.
  double all_to_all(double bytes, group_span among) const;
  /// Time of a message from one rank to another. `bytes`: of one message.
  double transfer(double bytes, bool between_hosts) const;

 private:
  double rate(group_span among) const;
  double rate_between(int local) const;

  const cluster_outline& on_;
  double share_;
};

}  // namespace troupe::runtime
