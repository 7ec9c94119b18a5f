#include "runtime/forecast/process_forecast.hpp"

#include "runtime/job/job_seats.hpp"

#include <algorithm>
#include <string>

namespace troupe::runtime {

std::vector<process_forecast> forecast_processes(const training_job& job,
                                                 const std::vector<memory_forecast>& needs,
                                                 std::vector<std::string> hosts) {
  std::vector<process_forecast> out;
  const int processes = job.layout.processes;
  if (processes < 2)
    return out;
  const auto placed = placed_of(job.layout);
  for (int p = 0; p < processes; ++p) {
    auto& at = out.emplace_back(process_forecast{.ranks = placed.ranks_of(p)});
    for (const int rank : at.ranks)
      at.workers += needs[std::size_t(rank)].peak();
  }
  if (!job.recovery.on)
    return out;
  hosts.resize(std::size_t(processes));
  const auto keepers = keepers_of(hosts);
  for (int p = 0; p < processes; ++p) {
    auto& keeper = out[std::size_t(keepers[std::size_t(p)])];
    keeper.keeps_for = p;
    for (const int rank : placed.ranks_of(p)) {
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
