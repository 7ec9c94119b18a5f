// Cross-entropy of softmax, fused: no probabilities are stored.
//
//   lse[r]  = log sum_{v < vocabulary} exp(logits[r,v])
//   loss[r] = lse[r] - logits[r, target[r]]
//   dlogits[r,v] = (exp(logits[r,v] - lse[r]) - [v == target[r]]) * dloss[r]
//
// Columns from `vocabulary` to V are padding: they take no part and their gradient is zero. A loss
// mask is a factor of dloss; a row whose dloss is 0 gets a gradient of exactly 0.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct cross_entropy_forward {
  float* loss;                 ///< (R) written
  float* lse;                  ///< (R) written; null: not wanted
  const T* logits;             ///< (R, V)
  const std::int32_t* target;  ///< (R) below vocabulary
  std::int64_t R, V;
  std::int64_t vocabulary;  ///< at most V
};

template <class T>
struct cross_entropy_backward {
  T* dlogits;                  ///< (R, V) written; may be `logits` itself
  const T* logits;             ///< (R, V)
  const float* lse;            ///< (R)
  const std::int32_t* target;  ///< (R)
  const float* dloss;          ///< (R) gradient of the total with respect to loss[r]
  std::int64_t R, V;
  std::int64_t vocabulary;
};

template <class T>
constexpr std::int64_t flops(const cross_entropy_forward<T>& op) {
  return 4 * op.R * op.vocabulary;
}
template <class T>
constexpr std::int64_t flops(const cross_entropy_backward<T>& op) {
  return 4 * op.R * op.vocabulary;
}
template <class T>
constexpr std::int64_t bytes_moved(const cross_entropy_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.vocabulary + 12 * op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const cross_entropy_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * (op.vocabulary + op.V) + 12 * op.R;
}

}  // namespace troupe::kernels
