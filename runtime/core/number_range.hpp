// The range of the numbers that a setting takes, and its text for help and errors.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace troupe::runtime {

/// Largest count that a setting takes; exact in a double.
constexpr std::int64_t largest_count = std::int64_t{1} << 53;

/// Whole numbers, both ends included.
struct whole_range {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
};

/// Finite numbers.
struct real_range {
  double least = std::numeric_limits<double>::lowest();
  double most = std::numeric_limits<double>::max();
  bool above = false;  ///< `least` itself is not taken
  bool below = false;  ///< `most` itself is not taken
};

/// std::monostate: the words are not numbers.
using number_range = std::variant<std::monostate, whole_range, real_range>;

/// `word` as a number; empty if it is not a number or is out of range.
std::optional<std::int64_t> number_in(const whole_range& range, std::string_view word);
std::optional<double> number_in(const real_range& range, std::string_view word);
/// True if `word` is in range, or if there is no range.
bool takes(const number_range& range, std::string_view word);

/// For errors: "a whole number from 1 to 10000", "a number of 0 or more".
std::string range_text(const whole_range& range);
std::string range_text(const real_range& range);
std::string range_text(const number_range& range);
/// Text for help: "1 to 10000", "1 or more", "above 0"; empty: any number. The
/// largest number of a type does not count as an end.
std::string told_shortly(const number_range& range);

}  // namespace troupe::runtime
