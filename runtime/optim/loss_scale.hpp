// The factor of the loss in fp16. Gradients of activations are small, and fp16 ends at 2^-24: the
// loss is multiplied so that they are not, and the update divides by the same factor. As large as
// the other end, 65504, allows it: Micikevicius et al.: "Mixed Precision Training", 2018.
//
// Dynamic, as in Megatron-LM. After a step whose gradients are not finite, and which therefore is
// left out: hysteresis goes down by 1, and where it is 0 or less the scale is halved, not below the
// minimum. After `window` steps in a row that are: the scale is doubled and hysteresis is full
// again; only then. With a window of 3, from 2^32:
//
//   finite     no   no   yes  no   yes  yes  yes
//   log2       32   31   31   30   30   30   31       after the step
//
// State: runtime/telemetry/step_report.hpp.

#pragma once

#include "runtime/telemetry/step_report.hpp"

#include <cstdint>

namespace troupe::runtime {

struct loss_scaling {
  double constant = 0;  ///< 0: dynamic

  double initial = 4294967296.0;
  double minimum = 1;
  std::int64_t window = 1000;
  std::int64_t hysteresis = 2;

  friend bool operator==(const loss_scaling&, const loss_scaling&) = default;
};

/// Of the first step.
loss_scale first_scale(const loss_scaling& scaling);

/// After a step.
loss_scale next_scale(const loss_scaling& scaling, loss_scale at, bool finite);

/// Whether steps that are not finite lower it, be it not at once.
bool can_fall(const loss_scaling& scaling, const loss_scale& at);

/// Of a run that goes on from a checkpoint which has this one. A constant scale is the run's.
loss_scale resumed_scale(const loss_scaling& scaling, const loss_scale& there);

}  // namespace troupe::runtime
