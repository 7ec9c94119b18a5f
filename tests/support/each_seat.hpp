// The ranks of a job on both meshes, without actors: each has its own thread, stream and groups.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/layout/seats.hpp"
#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Calls visit(rank, stream, groups) for each rank on its own thread. Rethrows a failure.
inline void each_seat(
    const runtime::seats& all,
    const std::function<
        void(int rank, runtime::stream& stream, const runtime::worker_groups& groups)>& visit) {
  using namespace runtime;
  std::map<std::pair<axis_set, int>, std::shared_ptr<local_group>> groups;  // by lowest rank
  std::vector<std::map<axis_set, std::unique_ptr<communicator>>> of_rank(std::size_t(all.size()));
  cancel_token token;
  std::set<axis_set> wanted
      = {all.summed(parameter_placements().sums()), all.summed(of_experts({}).sums())};
  for (const auto& row : axis_table())
    if (row.splits_replica() && all.extent(row.id) > 1)
      wanted.insert(row.id);
  for (const auto along : wanted)
    for (int r = 0; r < all.size(); ++r) {
      const auto peers = all.peers(r, along);
      auto& group = groups[{along, peers.front()}];
      if (!group)
        group = std::make_shared<local_group>(along, int(peers.size()), token);
      const auto at = std::find(peers.begin(), peers.end(), r) - peers.begin();
      of_rank[std::size_t(r)][along] = std::make_unique<local_communicator>(group, int(at));
    }
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int r = 0; r < all.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        stream stream(kernels::backend::cpu, 1, memory_pool());
        worker_groups mine{.extents = all.extents()};
        for (const auto& [along, group] : of_rank[std::size_t(r)])
          mine.along[along] = group.get();
        visit(r, stream, mine);
      } catch (const cancelled&) {
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        token.cancel();
      }
    });
  for (auto& t : threads)
    t.join();
  if (failure)
    std::rethrow_exception(failure);
}

}  // namespace troupe::tests
