// Optimizer updates with one moment, and a scaled sum from which other updates are composed. For
// each element, with g = gradient * gradient_scale (clipping):
//
//   momentum_step, sgd    m = beta1 * m + g + weight_decay * x
//                         x = x - rate * m
//   momentum_step, lion   c = beta1 * m + (1 - beta1) * g
//                         m = beta2 * m + (1 - beta2) * g
//                         x = x - rate * (weight_decay * x + sign(c))
//   scaled_sum            y = a / max(norm, eps) * x + b * z      norm^2 = the sum of `squares`;
//                                                                 without them y = a * x + b * z
//
// sgd is SGD with momentum and coupled weight decay, as in torch.optim.SGD. For lion, sign(0) is 0.
//
// Sutskever et al.: "On the importance of initialization and momentum in deep learning", 2013. Chen
// et al.: "Symbolic Discovery of Optimization Algorithms", 2023 (lion).

#pragma once

#include "kernels/op/fingerprint.hpp"

namespace troupe::kernels {

enum class momentum_rule : std::uint8_t { sgd, lion };

template <class T>
struct momentum_step {
  T* x;         ///< (n) parameters, updated in place
  T* m;         ///< (n) moment, updated in place
  const T* dx;  ///< (n) gradient
  std::int64_t n;
  momentum_rule rule;
  float gradient_scale = 1;
  float rate;
  float beta1;
  float beta2 = 0;  ///< lion only
  float weight_decay;
  void* rounded = nullptr;  ///< (n) new parameters in `rounded_to`, written; or null
  narrow_type rounded_to = narrow_type::bf16;
  written_fingerprints fingerprints = {};  ///< of x and m; n and grain are in elements
};

template <class T>
struct scaled_sum {
  T* y;        ///< (n) written; may alias `x` or `z`
  const T* x;  ///< (n)
  const T* z;  ///< (n), or null: no b * z term
  std::int64_t n;
  float a = 1, b = 0;
  const double* squares = nullptr;  ///< (count) added in order; or null
  std::int64_t count = 0;
  float eps = 0;
  written_fingerprints fingerprints = {};  ///< of y; n and grain are in elements
};

/// The factor of x in a scaled_sum.
template <class T>
constexpr double factor_of(const scaled_sum<T>& op, double norm) {
  return op.squares ? double(op.a) / (norm > double(op.eps) ? norm : double(op.eps)) : op.a;
}

template <class T>
constexpr std::int64_t flops(const momentum_step<T>& op) {
  return (op.rule == momentum_rule::sgd ? 7 : 10) * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const momentum_step<T>& op) {
  return std::int64_t{sizeof(T)} * 5 * op.n + (op.rounded ? 2 * op.n : 0);
}
template <class T>
constexpr std::int64_t flops(const scaled_sum<T>& op) {
  return (op.z ? 3 : 1) * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const scaled_sum<T>& op) {
  return std::int64_t{sizeof(T)} * (op.z ? 3 : 2) * op.n + 8 * op.count;
}

}  // namespace troupe::kernels
