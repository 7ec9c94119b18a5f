// Compares copies of a parameter with what their owners report.

#pragma once

#include "messages/training/step.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// STEP-6: true if the copy equals one of the owners' digests of its parameter, which depend on the
/// shard. Nothing: none of these ranks owns the parameter.
inline std::optional<bool> equals_owner(const std::string& parameter,
                                        const runtime::digest& copy,
                                        const std::vector<messages::updated_state>& ranks) {
  std::optional<bool> out;
  for (const auto& x : ranks)
    if (const auto found = x.own.find(parameter); found != x.own.end())
      out = out.value_or(false) || found->second == copy;
  return out;
}

}  // namespace troupe::actors
