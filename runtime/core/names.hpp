// Looks up enumeration values by name. A table lists the names in the order of the values from 0.

#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace troupe::runtime {

/// Empty if the table does not contain `name`.
template <class Choice, std::size_t n>
std::optional<Choice> value_named(const std::string_view (&names)[n], std::string_view name) {
  for (std::size_t i = 0; i < n; ++i)
    if (names[i] == name)
      return Choice(i);
  return std::nullopt;
}

}  // namespace troupe::runtime
