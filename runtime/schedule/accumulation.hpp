// PLAN-4: the order in which a plan adds weight gradients.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// One sentence for each reason why a run with this plan has other bits than single-copy schedules
/// that add micro-batches in ascending order. Needs a sound plan.
std::vector<std::string> accumulation_notes(const plan& x);

}  // namespace troupe::runtime
