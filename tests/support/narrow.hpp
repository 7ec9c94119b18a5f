// What to expect of results in bf16 and f16.

#pragma once

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace troupe::tests {

/// How a narrow type lies in its bits, the sign beside.
template <class T>
struct narrow_format;
template <>
struct narrow_format<kernels::bf16> {
  static constexpr int fraction = 7;           ///< bits
  static constexpr int least_exponent = -126;  ///< of a normal number
};
template <>
struct narrow_format<kernels::f16> {
  static constexpr int fraction = 10, least_exponent = -14;
};

/// The distance from a number to the next of the type.
template <class T>
double unit_at(double x) {
  using format = narrow_format<T>;
  const int exponent = std::abs(x) > 0 ? std::ilogb(x) : format::least_exponent;
  return std::ldexp(1, std::max(exponent, format::least_exponent) - format::fraction);
}

/// Whether two roundings of nearly the same numbers are equal or neighbours: numbers that differ by
/// `noise` (relative to the largest) may lie on two sides of the middle between two.
template <class T>
bool neighbours(const std::vector<T>& a, const std::vector<T>& b, double noise) {
  double largest = 0;
  for (const auto x : b)
    largest = std::max(largest, std::abs(double(x)));
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = double(a[i]), y = double(b[i]);
    const double unit = unit_at<T>(std::max(std::abs(x), std::abs(y)));
    if (!(std::abs(x - y) <= unit + noise * largest))
      return false;
  }
  return true;
}

/// How many are not equal, a share. Numbers that lie at random are rounded apart with a probability
/// of their noise in units of the type.
template <class T>
double unequal(const std::vector<T>& a, const std::vector<T>& b) {
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

/// The largest distance of a result from the exact one, less half a unit in the last place: what is
/// left when it was rounded once is the error of sums in float. Relative to the largest exact
/// number. Not a number is infinitely far.
template <class T>
double beyond_rounding(const std::vector<T>& mine, const std::vector<double>& exact) {
  constexpr auto half_unit = 2 << narrow_format<T>::fraction;  // at most, of a normal number
  const double half_least = unit_at<T>(0) / 2;
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double away = std::abs(double(mine[i]) - exact[i])
                        - std::max(std::abs(exact[i]) / half_unit, half_least);
    worst = std::isnan(away) ? HUGE_VAL : std::max(worst, away);
    scale = std::max(scale, std::abs(exact[i]));
  }
  return worst / scale;
}

/// Every number of the type: zeros, denormals, infinities and what is not a number among them.
template <class T>
std::vector<T> all_numbers() {
  std::vector<T> out(65536);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].bits = std::uint16_t(i);
  return out;
}

}  // namespace troupe::tests
