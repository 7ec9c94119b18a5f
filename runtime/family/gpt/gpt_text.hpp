// A GPT in words, for a dry run.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"

#include <string>

namespace troupe::runtime {

/// Several lines; each ends with a newline.
std::string text_of(const gpt_config& config, std::int64_t parameters);

}  // namespace troupe::runtime
