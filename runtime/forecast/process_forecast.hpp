// Memory forecast for each process of a job with several processes: the memory of its workers, and
// of the states that it keeps for another process (kept_states.hpp).

#pragma once

#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/layout/placement.hpp"

#include <cstdint>
#include <vector>

namespace troupe::runtime {

/// All sizes in bytes.
struct process_forecast {
  std::vector<int> ranks = {};  ///< ascending
  std::int64_t workers = 0;     ///< sum of the peaks of its workers
  int host = 0;                 ///< index of its host
  int keeps_for = -1;           ///< it keeps the states of this process; -1: none
  int kept_by = -1;             ///< the process that keeps its states; -1: none
  std::int64_t kept = 0;        ///< the two newest states of those ranks
  /// The largest kept state of one rank: a new state arrives completely before it replaces an older
  /// one (KEPT-1).
  std::int64_t taken_over = 0;
  /// One more state of each rank, while it is written to a local disk (local_states.hpp).
  std::int64_t written = 0;

  std::int64_t keeping() const { return kept + taken_over + written; }
  std::int64_t peak() const { return workers + keeping(); }
  friend bool operator==(const process_forecast&, const process_forecast&) = default;
};

/// Forecasts by process number; empty for a single process. `needs`: one entry per rank. `hosts`:
/// as for placement_of; empty: all are on one host.
std::vector<process_forecast> forecast_processes(const training_job& job,
                                                 const std::vector<memory_forecast>& needs,
                                                 std::vector<host_slots> hosts = {});

}  // namespace troupe::runtime
