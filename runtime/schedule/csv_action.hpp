// One action as text, the other way round from to_string.

#pragma once

#include "runtime/schedule/plan.hpp"

#include <string_view>

namespace troupe::runtime {

struct read_action {
  action what;
  bool names_copy = false;  ///< it has a letter
};

/// "1F3", "b1F3", "1I3.2", "1REDUCE_GRAD". Throws input_error that says what is wrong with it.
read_action action_from_text(std::string_view text);

}  // namespace troupe::runtime
