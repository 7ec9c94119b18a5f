// The settings of a GPT as they are asked for. `gpt_family::resolve` makes a gpt_config of them.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"

#include <optional>
#include <string>

namespace troupe::runtime {

struct gpt_asked {
  gpt_config config;                    ///< settings that were not given have their defaults
  bool grouped_queries = false;         ///< G is smaller than H; without groups it is 1
  std::optional<std::string> position;  ///< "learned_absolute", "rope", "yarn" or "none"
  bool no_position = false;
  std::optional<double> llama3_factor, yarn_factor;
  std::optional<std::string> normalization;  ///< "LayerNorm" or "RMSNorm"
};

}  // namespace troupe::runtime
