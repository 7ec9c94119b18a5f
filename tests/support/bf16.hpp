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

}  // namespace troupe::tests
