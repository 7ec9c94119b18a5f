// Checks which ranks a vote or a report of a new state names.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/layout/seats.hpp"

#include <algorithm>
#include <vector>

namespace troupe::actors {

constexpr const char* each_rank_once = "STEP-11: a replica reports each of its ranks once";

/// Breaks STEP-11 unless the entries are of this replica: one for the dense layers of each rank,
/// and at most one for its experts.
template <class Entry>
void require_each_rank(const std::vector<Entry>& entries, int replica, const runtime::seats& all) {
  runtime::ensure(replica >= 0 && replica < all.replicas(), each_rank_once);
  std::vector<int> dense, experts;
  for (const auto& x : entries)
    (x.layers == runtime::axis_view::dense ? dense : experts).push_back(x.rank);
  auto ranks = all.replica(replica);
  for (auto* const x : {&ranks, &dense, &experts})
    std::ranges::sort(*x);
  runtime::ensure(dense == ranks && std::ranges::includes(ranks, experts), each_rank_once);
}

}  // namespace troupe::actors
