// Text of ascending numbers, for consoles.

#pragma once

#include <fmt/format.h>
#include <string>
#include <vector>

namespace troupe::runtime {

struct range_style {
  const char* to = "-";       ///< between the ends of a range
  bool single_alone = false;  ///< a range of one number has one end: "8", not "8-8"
};

/// "0-3, 8-8". Empty for no numbers.
inline std::string ranges_of(const std::vector<int>& numbers, const range_style& style = {}) {
  std::string out;
  for (std::size_t i = 0, end = 0; i < numbers.size(); i = end) {
    while (end < numbers.size() && numbers[end] - numbers[i] == int(end - i))
      ++end;
    out += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
    if (end - i > 1 || !style.single_alone)
      out += fmt::format("{}{}", style.to, numbers[end - 1]);
  }
  return out;
}

}  // namespace troupe::runtime
