// Known errors of cuDNN's attention. Troupe does not use cuDNN for these cases.
//
// - Before 9.26: kernels of the backward pass read lse as (B, H, T), whatever its strides.
//   NVIDIA/cudnn-frontend, pull request 304. So every launch uses that layout
//   (attention_split.hpp).
// - One query or one key: the backward pass gives wrong results or none. NVIDIA/cudnn-frontend,
//   issues 1071 and 1072.
// - Keys of the last tile past the end that no mask hides: the backward pass takes their scores as
//   0; if lse is below -88.7 their weights are infinite. NVIDIA/cudnn-frontend, pull request 628;
//   pytorch/pytorch, issue 196678. A causal mask hides them if no query comes after the last key.

#pragma once

#include "kernels/op/attention.hpp"

namespace troupe::kernels::cudnn {

/// Whether a shape that is `sayable` is free of known errors.
bool trusted(const attention_shape& a, bool backward);

}  // namespace troupe::kernels::cudnn
