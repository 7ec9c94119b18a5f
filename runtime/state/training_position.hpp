// The progress of a training, beside its parameters and moments.

#pragma once

#include "runtime/job/recipe.hpp"
#include "runtime/optim/loss_scale.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <cstdint>

namespace troupe::runtime {

struct training_position {
  std::uint64_t iteration = 0;  ///< steps done, including skipped ones
  std::uint64_t consumed = 0;   ///< samples read by these steps
  skipped_steps skipped;
  loss_scale scale = {};  ///< for the next step
};

/// The position before the first step.
training_position beginning(const recipe& recipe);

}  // namespace troupe::runtime
