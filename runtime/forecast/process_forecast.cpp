#include "runtime/forecast/process_forecast.hpp"

#include "runtime/job/job_seats.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {

std::vector<process_forecast> forecast_processes(const training_job& job,
                                                 const std::vector<memory_forecast>& needs,
                                                 std::vector<host_slots> hosts) {
  std::vector<process_forecast> out;
  const int processes = job.layout.processes;
  if (processes < 2)
    return out;
  if (hosts.empty())
    hosts.push_back({.name = {}, .slots = processes});
  const auto placed = placement_of(placed_of(job.layout), hosts);
  for (int p = 0; p < processes; ++p) {
    auto& at = out.emplace_back(process_forecast{.ranks = placed.ranks.ranks_of(p),
                                                 .host = placed.host_of[std::size_t(p)]});
    for (const int rank : at.ranks)
      at.workers += needs[std::size_t(rank)].peak();
  }
  if (!job.recovery.on)
    return out;
  for (int p = 0; p < processes; ++p) {
    const int kept_by = placed.keeper_of[std::size_t(p)];
    out[std::size_t(p)].kept_by = kept_by;
    auto& keeper = out[std::size_t(kept_by)];
    keeper.keeps_for = p;
    for (const int rank : placed.ranks.ranks_of(p)) {
      const auto state = needs[std::size_t(rank)].state;
      keeper.kept += 2 * state;
      if (job.checkpoints.local_interval > 0)
        keeper.written += state;
      keeper.taken_over = std::max(keeper.taken_over, state);
    }
  }
  return out;
}

}  // namespace troupe::runtime
