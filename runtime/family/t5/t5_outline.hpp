// The sizes of a T5 for forecasts of time.

#pragma once

#include "runtime/family/model_outline.hpp"
#include "runtime/family/t5/t5_config.hpp"

namespace troupe::runtime {

/// Per token of the decoder: an operation of the encoder counts as often as its stream is longer.
model_outline t5_outline(const t5_config& config);

}  // namespace troupe::runtime
