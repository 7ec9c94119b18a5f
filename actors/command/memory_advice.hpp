// Advice for a run that does not fit into memory: that of the machine on the cpu backend, that of
// each device on the cuda backend.

#pragma once

#include "runtime/forecast/memory_forecast.hpp"
#include "runtime/job/job.hpp"
#include "runtime/machine/machine.hpp"

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

/// ", gradients not taken yet 1.2 MB": memory that other stages may occupy on a worker. Empty if
/// there is none.
std::string left_text(const runtime::memory_forecast& need);

/// "; experts: 2 expert ranks x 1 expert tensor rank"; empty for a model without experts.
std::string expert_ranks_text(const runtime::training_job& job);

/// The forecast of each rank.
std::vector<runtime::memory_forecast> needs_by_rank(
    const runtime::training_job& job, const std::vector<runtime::forecast_group>& groups);

/// The peak needs of the job's workers by machine or device, with the states that processes keep
/// for each other. `needs` is by rank. Memory of unknown size counts as unlimited. Throws
/// backend_missing if a device cannot be used.
std::vector<memory_share> memory_shares(const runtime::training_job& job,
                                        const std::vector<runtime::memory_forecast>& needs,
                                        const runtime::memory_facts& machine);

/// The share that lacks the most memory; empty if all fit. `surely`: does not count what pools
/// round up on the host.
std::optional<memory_share> short_of_memory(const std::vector<memory_share>& shares, bool surely);

/// The needs, the available memory, and the flags that would help and are not set yet. One line,
/// without a line end.
std::string memory_advice(const runtime::training_job& job, const memory_share& lacking);

}  // namespace troupe::command
