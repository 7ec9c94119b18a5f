// The choices that a GPT's shape is made of, for rooms that do not see the kernels.

#pragma once

#include "runtime/model/gpt/gpt_config.hpp"

namespace troupe::runtime {

using activation_kind = kernels::activation;
using normalization_kind = kernels::normalization;

}  // namespace troupe::runtime
