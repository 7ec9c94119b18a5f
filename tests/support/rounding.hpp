// How far results in bf16 are from exact ones.

#pragma once

#include "kernels/op/bf16.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace troupe::tests {

template <class T>
std::vector<double> exactly(const std::vector<T>& x) {
  std::vector<double> out;
  for (const T& value : x)
    out.push_back(double(value));
  return out;
}

/// The largest distance of a result from the exact one, less half a unit in the last place of bf16
/// (at most 2^-8 of the number): what is left when it was rounded once is the error of sums in
/// float. Relative to the largest exact number. Not a number is infinitely far.
inline double beyond_rounding(const std::vector<kernels::bf16>& mine,
                              const std::vector<double>& exact) {
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double away = std::abs(double(mine[i]) - exact[i]) - std::abs(exact[i]) / 256;
    worst = std::isnan(away) ? HUGE_VAL : std::max(worst, away);
    scale = std::max(scale, std::abs(exact[i]));
  }
  return worst / scale;
}

}  // namespace troupe::tests
