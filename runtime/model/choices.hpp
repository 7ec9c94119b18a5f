// Enumerations of a GPT's configuration, for components that do not include the kernels.

#pragma once

#include "runtime/model/gpt/gpt_config.hpp"

namespace troupe::runtime {

using activation_kind = kernels::activation;
using normalization_kind = kernels::normalization;

}  // namespace troupe::runtime
