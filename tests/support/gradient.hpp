#pragma once

#include <cstddef>
#include <vector>

namespace troupe::tests {

/// The scalar whose gradient with respect to y is dy.
inline double weighted_sum(const std::vector<double>& y, const std::vector<double>& dy) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += y[i] * dy[i];
  return sum;
}

/// Gradient of loss() with respect to each element of `input` by central differences: with numbers
/// near one, right to about 1e-10 (truncation 1e-10, rounding 1e-16 / 1e-5).
template <class Loss>
std::vector<double> slopes(std::vector<double>& input, Loss loss) {
  constexpr double h = 1e-5;
  std::vector<double> out;
  for (double& element : input) {
    const double at = element;
    element = at + h;
    const double up = loss();
    element = at - h;
    const double down = loss();
    element = at;
    out.push_back((up - down) / (2 * h));
  }
  return out;
}

/// What an accumulated gradient holds after `added` on top of `before`.
inline std::vector<double> plus(std::vector<double> before, const std::vector<double>& added) {
  for (std::size_t i = 0; i < before.size(); ++i)
    before[i] += added[i];
  return before;
}

}  // namespace troupe::tests
