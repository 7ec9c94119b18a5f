// The parts of an action's name in a record, such as "b1I3.2" (runtime/schedule/plan.hpp).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

struct action_parts {
  std::string copy;  ///< "b" of the second copy; empty: the only one
  std::string kind;  ///< "F", "I", "W", ...
  std::optional<std::uint64_t> chunk, microbatch, block;
};

/// Missing or damaged parts stay empty.
action_parts action_parts_of(std::string_view name);

}  // namespace troupe::runtime
