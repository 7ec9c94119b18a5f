// What to expect of results in bf16.

#pragma once

#include "kernels/op/bf16.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::tests {

/// Whether two roundings to bf16 of nearly the same numbers are equal or neighbours: numbers that
/// differ by `noise` (relative to the largest) may lie on two sides of the middle between two.
inline bool neighbours(const std::vector<kernels::bf16>& a,
                       const std::vector<kernels::bf16>& b,
                       double noise) {
  double largest = 0;
  for (const auto x : b)
    largest = std::max(largest, std::abs(double(x)));
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = double(a[i]), y = double(b[i]);
    const double unit = std::ldexp(1, std::ilogb(std::max({std::abs(x), std::abs(y), 1e-30})) - 7);
    if (!(std::abs(x - y) <= unit + noise * largest))
      return false;
  }
  return true;
}

/// How many are not equal, a share. Numbers that lie at random are rounded apart with a probability
/// of their noise in units of bf16.
inline double unequal(const std::vector<kernels::bf16>& a, const std::vector<kernels::bf16>& b) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    n += a[i] != b[i];
  return b.empty() ? 0 : double(n) / double(b.size());
}

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
