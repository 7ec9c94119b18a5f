#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace troupe::kernels::reference {

template <class T>
void run(const sinkhorn<T>& op) {
  const std::int64_t R = op.R, E = op.E;
  std::vector<double> cost(std::size_t(R * E)), d0(static_cast<std::size_t>(R)),
      d1(std::size_t(E), 1.0);
  for (std::int64_t r = 0; r < R; ++r) {
    const T* x = op.logits + r * E;
    const double largest = *std::max_element(x, x + E);
    for (std::int64_t e = 0; e < E; ++e)
      cost[std::size_t(r * E + e)] = std::exp(double(x[e]) - largest);
  }
  double change = std::numeric_limits<double>::infinity();
  for (int round = 0; round < op.most_rounds && change > op.tolerance; ++round) {
    for (std::int64_t r = 0; r < R; ++r) {
      double sum = op.epsilon;
      for (std::int64_t e = 0; e < E; ++e)
        sum += d1[std::size_t(e)] * cost[std::size_t(r * E + e)];
      d0[std::size_t(r)] = 1 / (double(R) * sum);
    }
    change = 0;
    for (std::int64_t e = 0; e < E; ++e) {
      double sum = op.epsilon;
      for (std::int64_t r = 0; r < R; ++r)
        sum += d0[std::size_t(r)] * cost[std::size_t(r * E + e)];
      const double before = std::exchange(d1[std::size_t(e)], 1 / (double(E) * sum));
      change += std::abs(d1[std::size_t(e)] - before) / double(E);
    }
  }
  for (std::int64_t e = 0; e < E; ++e)
    op.bias[e] = T(std::log(d1[std::size_t(e)]));
}

template void run(const sinkhorn<float>&);
template void run(const sinkhorn<double>&);

}  // namespace troupe::kernels::reference
