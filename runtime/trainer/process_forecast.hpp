// How much memory each process of a job will need, where several host its ranks: what its workers
// need, and what it keeps of another one's ranks (kept_states.hpp).

#pragma once

#include "runtime/trainer/memory_forecast.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Bytes.
struct process_forecast {
  int first_rank = 0, end_rank = 0;  ///< one past its last
  std::int64_t workers = 0;          ///< the most that training needs, of all of them
  int keeps_for = -1;                ///< the process whose ranks' states it keeps; -1: none
  std::int64_t kept = 0;             ///< their two newest states
  /// The largest state of a rank among them: one is complete before it takes the place of an older
  /// one (KEPT-1).
  std::int64_t taken_over = 0;
  /// One state of each more, which a local disk is still being given (local_states.hpp).
  std::int64_t written = 0;

  std::int64_t keeping() const { return kept + taken_over + written; }
  std::int64_t peak() const { return workers + keeping(); }
  friend bool operator==(const process_forecast&, const process_forecast&) = default;
};

/// By the numbers of the processes; empty where one hosts all. `needs`: of each rank. `hosts`: of
/// each process, equal for those of one host; empty: all are on one.
std::vector<process_forecast> forecast_processes(const training_job& job,
                                                 const std::vector<memory_forecast>& needs,
                                                 std::vector<std::string> hosts = {});

}  // namespace troupe::runtime
