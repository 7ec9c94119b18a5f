// Formats counts and sizes for messages.

#pragma once

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// "1 worker", "2 workers".
inline std::string counted(std::int64_t number, std::string_view one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

/// Same, with a given plural: "1 micro-batch", "2 micro-batches".
inline std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

/// "1.5 GB", "812 kB": powers of 1000, three significant digits.
std::string human_bytes(double bytes);

}  // namespace troupe::runtime
