// A bias for the router (route.hpp) that balances its choice: log d1, where d0[r] c[r,e] d1[e] has
// equal sums over rows and over experts:
//
//   c[r,e] = e^(x[r,e] - max of row r)
//   d0[r] = 1 / (R (sum_e d1[e] c[r,e] + 1e-8))
//   d1[e] = 1 / (E (sum_r d0[r] c[r,e] + 1e-8))
//
// from d1 = 1 until the mean of |change of d1| is at most 1e-4, or for 1000 rounds. Added to the
// logits of `route` (by_logit) it ranks each row's experts as the balanced matrix does. All numbers
// between are doubles. A row with a NaN makes each bias NaN. Without rows each bias is
// log(1e8 / E).
//
// Sinkhorn, Knopp: "Concerning nonnegative matrices and doubly stochastic matrices", 1967.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct sinkhorn {
  T* bias;          ///< (E) written
  const T* logits;  ///< (R, E)
  std::int64_t R, E;
  static constexpr double tolerance = 1e-4, epsilon = 1e-8;
  static constexpr int most_rounds = 1000;
};

template <class T>
constexpr std::int64_t flops(const sinkhorn<T>& op) {
  return 4 * op.R * op.E;  // of one round
}
template <class T>
constexpr std::int64_t bytes_moved(const sinkhorn<T>& op) {
  return std::int64_t{sizeof(T)} * op.E * (op.R + 1);
}

}  // namespace troupe::kernels
