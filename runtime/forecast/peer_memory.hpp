// Memory of other programs for a job, by the formulas of its model's family (peer_estimates.hpp).
// memory_forecast.hpp describes this program's memory.

#pragma once

#include "runtime/family/peer_estimates.hpp"
#include "runtime/job/job.hpp"

#include <optional>
#include <string>

namespace troupe::runtime {

/// Megatron-LM's own estimate: the numbers of its log before training ("Theoretical memory
/// footprints"). Nothing if the family has no formula.
std::optional<theoretical_memory> megatron_memory(const training_job& job);

/// The line of Megatron-LM's log, in MB of 2^20 bytes.
std::string to_text(const theoretical_memory& x);

/// True if the estimate covers the job: the whole model on each device, without a user's extension,
/// and of a family with a formula.
bool has_pytorch_estimate(const training_job& job);

/// Breaks MEMORY-1 if has_pytorch_estimate is false.
pytorch_memory pytorch_estimate(const training_job& job, pytorch_mode mode);

}  // namespace troupe::runtime
