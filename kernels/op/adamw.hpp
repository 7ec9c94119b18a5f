// AdamW: Loshchilov, Hutter: "Decoupled Weight Decay Regularization", 2019. For each element, with
// g = gradient * gradient_scale (clipping):
//
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   x = x - rate * weight_decay * x - rate * (m / correction1) / (sqrt(v / correction2) + eps)
//
// correction_i = 1 - beta_i^t for step t = 1, 2, ...; the caller computes it in double.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct adamw {
  T* x;         ///< (n) parameters, changed
  T* m;         ///< (n) first moment, changed
  T* v;         ///< (n) second moment, changed
  const T* dx;  ///< (n) gradient
  std::int64_t n;
  float gradient_scale = 1;
  float rate;
  float beta1, beta2, eps;
  float weight_decay;
  float correction1, correction2;
  bf16* rounded = nullptr;  ///< (n) or null: where the new parameters go, rounded
};

template <class T>
constexpr std::int64_t flops(const adamw<T>& op) {
  return 15 * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const adamw<T>& op) {
  return std::int64_t{sizeof(T)} * 7 * op.n + (op.rounded ? 2 * op.n : 0);
}

}  // namespace troupe::kernels
