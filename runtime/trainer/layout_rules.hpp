// What a layout must keep to, so that every worker gets a part of the same size.

#pragma once

#include "runtime/trainer/job.hpp"

namespace troupe::runtime {

/// Every rule of mesh, stages, tensor parallelism, reduction and recomputation that the job breaks,
/// one sentence each, but those about what is unknown; empty: none.
std::vector<std::string> validate_layout(const training_job& job, const unknown_parts& unknown);

}  // namespace troupe::runtime
