// PLAN-4: in which order a plan adds up the gradients of its weights.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <string>
#include <vector>

namespace troupe::runtime {

/// A sentence for each reason why the bits of a run by this plan differ from those of single-copy
/// schedules that add micro-batches in ascending order. Of a sound plan.
std::vector<std::string> accumulation_notes(const plan& x);

}  // namespace troupe::runtime
