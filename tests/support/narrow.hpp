// Comparisons of results in bf16 and f16.

#pragma once

#include "kernels/op/bf16.hpp"
#include "kernels/op/f16.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace troupe::tests {

/// Format of a narrow type, without its sign bit.
template <class T>
struct narrow_format;
template <>
struct narrow_format<kernels::bf16> {
  static constexpr int fraction = 7;           ///< bits
  static constexpr int least_exponent = -126;  ///< of normal numbers
};
template <>
struct narrow_format<kernels::f16> {
  static constexpr int fraction = 10, least_exponent = -14;
};

/// The distance from a number to the next one of the type.
template <class T>
double unit_at(double x) {
  using format = narrow_format<T>;
  const int exponent = std::abs(x) > 0 ? std::ilogb(x) : format::least_exponent;
  return std::ldexp(1, std::max(exponent, format::least_exponent) - format::fraction);
}

/// Whether all elements of `a` and `b` are equal or adjacent numbers of the type. `noise`:
/// difference before rounding, relative to the largest number.
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

/// The share of unequal elements. Random numbers with a noise of x units of the type round to
/// different values with probability x.
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

/// The largest distance of a result from the exact one, less half a unit in the last place,
/// relative to the largest exact number. For a result that was rounded once, this is the error of
/// its sums in float. NaN counts as infinitely far.
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

/// All bit patterns of the type, including zeros, denormals, infinities and NaNs.
template <class T>
std::vector<T> all_numbers() {
  std::vector<T> out(65536);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].bits = std::uint16_t(i);
  return out;
}

}  // namespace troupe::tests
