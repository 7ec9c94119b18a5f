// Memory of the largest rank by a formula, for comparisons of many layouts. memory_forecast.hpp is
// exact and takes longer.

#pragma once

#include "runtime/forecast/step_forecast.hpp"

namespace troupe::runtime {

/// Bytes: parameters, gradients, states of AdamW, the activations that 1F1B or an interleaved
/// schedule holds, and the largest temporary, logits or a layer that is computed again.
double estimate_memory(const model_outline& model, const step_outline& step);

}  // namespace troupe::runtime
