// What to say of a run that does not fit into the memory that its workers compute in: the machine's
// on the cpu backend, on the cuda backend that of each device.

#pragma once

#include "runtime/machine/machine.hpp"
#include "runtime/trainer/job.hpp"
#include "runtime/trainer/memory_forecast.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command {

/// Workers that share a memory.
struct memory_share {
  std::string place;  ///< "this machine", "device 0 (NVIDIA H200)"
  bool on_device = false;
  bool swaps = false;  ///< swap is part of what it has
  int workers = 0;
  std::int64_t need = 0, has = 0;  ///< bytes
};

/// ", gradients not taken yet 1.2 MB": what other stages may leave with a worker; empty: nothing.
std::string left_text(const runtime::memory_forecast& need);

/// By rank.
std::vector<runtime::memory_forecast> needs_by_rank(
    const runtime::training_job& job, const std::vector<runtime::forecast_group>& groups);

/// Of the job's workers, whose needs are given by rank, the most that training needs; with what
/// processes keep of each other. What is not known has no end. Throws backend_missing where a
/// device cannot be used.
std::vector<memory_share> memory_shares(const runtime::training_job& job,
                                        const std::vector<runtime::memory_forecast>& needs,
                                        const runtime::memory_facts& machine);

/// That which lacks most of those that have too little for their needs; none: all fit. `surely`:
/// whatever the pools round up.
std::optional<memory_share> short_of_memory(const std::vector<memory_share>& shares, bool surely);

/// What the workers need together, what there is, and the flags that would change it: those only
/// that this job has not set already. A line without its end.
std::string memory_advice(const runtime::training_job& job, const memory_share& lacking);

}  // namespace troupe::command
