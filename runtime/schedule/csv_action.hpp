// Parses one action: the inverse of to_string.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <string_view>

namespace troupe::runtime {

struct read_action {
  action what;
  bool names_copy = false;  ///< the text has the letter of a copy
};

/// Parses "1F3", "b1F3", "1I3.2" or "1REDUCE_GRAD". Throws input_error with the reason.
read_action action_from_text(std::string_view text);

}  // namespace troupe::runtime
