// What cuDNN is known to compute wrongly. It is not asked for it.
//
//   before 9.26: kernels of the backward pass read lse as if it were (B, H, T), whatever strides it
//   has. NVIDIA/cudnn-frontend, pull request 304. So it lies, in every launch
//   (attention_split.hpp).
//
//   one query or one key: backward has other results than it should, or none.
//   NVIDIA/cudnn-frontend, issues 1071 and 1072.
//
//   keys behind the last, in its tile, that no mask closes: backward takes their scores for 0, and
//   where lse is below -88.7 their weights are infinite. NVIDIA/cudnn-frontend, pull request 628;
//   pytorch/pytorch, issue 196678. A causal mask closes them where no query comes after the last
//   key.

#pragma once

#include "kernels/op/attention.hpp"

namespace troupe::kernels::cudnn {

/// Whether nothing is known against a shape that is sayable.
bool trusted(const attention_shape& a, bool backward);

}  // namespace troupe::kernels::cudnn
