// Balances experts without a loss: moves the bias of each expert's key towards an equal share of
// the rows.
//
//   expert_bias_step    bias[e] = bias[e] + rate * sign(mean - counts[e])    mean = sum counts / E
//
// sign(0) is 0. Counts are whole numbers below 2^24, so the comparison is exact.
//
// Wang et al.: "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", 2024.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct expert_bias_step {
  T* bias;          ///< (E) updated in place
  const T* counts;  ///< (E) rows of each expert
  std::int64_t E;
  float rate;
};

template <class T>
constexpr std::int64_t flops(const expert_bias_step<T>& op) {
  return 4 * op.E;
}
template <class T>
constexpr std::int64_t bytes_moved(const expert_bias_step<T>& op) {
  return std::int64_t{sizeof(T)} * 3 * op.E;
}

}  // namespace troupe::kernels
