#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::kernels::cpu {

std::size_t scratch(const sinkhorn<float>& op, int) {
  return sizeof(double) * std::size_t(op.R * op.E + op.R + 2 * op.E);
}

// Threads share the rows, then the columns, so each sum has one order.
template <class T>
void run(const sinkhorn<T>& op, const context& in) {
  const std::int64_t R = op.R, E = op.E;
  auto* const cost = scratch_array<double>(in, scratch(op, in.threads));
  double *const d0 = cost + R * E, *const d1 = d0 + R, *const sums = d1 + E;
  split(in.threads, R, rows_worth_a_thread(E), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const float* x = op.logits + r * E;
      const double top = *std::max_element(x, x + E);
      for (std::int64_t e = 0; e < E; ++e)
        cost[r * E + e] = std::exp(double(x[e]) - top);
    }
  });
  std::fill_n(d1, E, 1.0);
  double change = std::numeric_limits<double>::infinity();
  for (int round = 0; round < op.most_rounds && change > op.tolerance; ++round) {
    split(in.threads, R, rows_worth_a_thread(E), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        double sum = op.epsilon;
        for (std::int64_t e = 0; e < E; ++e)
          sum += d1[e] * cost[r * E + e];
        d0[r] = 1 / (double(R) * sum);
      }
    });
    split(in.threads, E, rows_worth_a_thread(R), [&](std::int64_t begin, std::int64_t end) {
      std::fill(sums + begin, sums + end, op.epsilon);
      for (std::int64_t r = 0; r < R; ++r)
        for (std::int64_t e = begin; e < end; ++e)
          sums[e] += d0[r] * cost[r * E + e];
    });
    change = 0;
    for (std::int64_t e = 0; e < E; ++e) {
      const double before = std::exchange(d1[e], 1 / (double(E) * sums[e]));
      change += std::abs(d1[e] - before) / double(E);
    }
  }
  for (std::int64_t e = 0; e < E; ++e)
    op.bias[e] = float(std::log(d1[e]));
}

template void run(const sinkhorn<float>&, const context&);

}  // namespace troupe::kernels::cpu
