// Nearest divisors, for error messages that suggest a valid size.

#pragma once

#include <cstdint>

namespace troupe::runtime {

/// The divisor of `number` that is nearest to `wanted`; the smaller one of two equally near.
constexpr std::int64_t nearest_divisor(std::int64_t number, std::int64_t wanted) {
  const auto distance = [wanted](std::int64_t d) { return d < wanted ? wanted - d : d - wanted; };
  std::int64_t best = 1;
  const auto take = [&](std::int64_t d) {
    if (distance(d) < distance(best) || (distance(d) == distance(best) && d < best))
      best = d;
  };
  for (std::int64_t d = 1; d <= number / d; ++d)
    if (number % d == 0) {
      take(d);
      take(number / d);
    }
  return best;
}

}  // namespace troupe::runtime
