// Activations of the feed-forward layer, forward and backward.
//
//   gelu_tanh  y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))       width N -> N
//   gelu_erf   y = x/2 * (1 + erf(x / sqrt(2)))                            width N -> N
//   squared_relu  y = max(x, 0)^2                                         width N -> N
//   swiglu     y = silu(gate) * linear, x = [gate | linear] in each row    width 2N -> N
//
// silu(g) = g / (1 + exp(-g)). The order of the swiglu halves is Megatron's.
//
// The weighted operations multiply each row of y by a weight, as the one of an expert for a token:
// y = weight[r] * activation(x[r]). Their backward pass also has the gradient of the weight,
// dweight[r] = sum_n dy[r,n] * activation(x[r])[n].
//
// So et al.: "Primer", 2021 (squared ReLU). Hendrycks, Gimpel: "Gaussian Error Linear Units", 2016.
// Shazeer: "GLU Variants Improve Transformer", 2020.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/kinds.hpp"

namespace troupe::kernels {

template <class T>
struct activation_forward {
  T* y;        ///< (R, N) written; may alias `x` if fan_in is 1
  const T* x;  ///< (R, fan_in * N)
  std::int64_t R, N;
  activation kind;
};

template <class T>
struct activation_backward {
  T* dx;        ///< (R, fan_in * N) written; may alias `x`, and `dy` if fan_in is 1
  const T* dy;  ///< (R, N)
  const T* x;   ///< (R, fan_in * N)
  std::int64_t R, N;
  activation kind;
};

template <class T>
struct weighted_activation_forward {
  T* y;                          ///< (R, N) written
  const T* x;                    ///< (R, fan_in * N)
  const accumulator<T>* weight;  ///< (R)
  std::int64_t R, N;
  activation kind;
};

template <class T>
struct weighted_activation_backward {
  T* dx;                         ///< (R, fan_in * N) written; may alias `x`
  accumulator<T>* dweight;       ///< (R) written
  const T* dy;                   ///< (R, N)
  const T* x;                    ///< (R, fan_in * N)
  const accumulator<T>* weight;  ///< (R)
  std::int64_t R, N;
  activation kind;
};

template <class T>
constexpr std::int64_t flops(const activation_forward<T>& op) {
  return op.R * op.N * (op.kind == activation::swiglu ? 6 : 12);
}
template <class T>
constexpr std::int64_t flops(const activation_backward<T>& op) {
  return op.R * op.N * (op.kind == activation::swiglu ? 12 : 20);
}
template <class T>
constexpr std::int64_t bytes_moved(const activation_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N * (1 + fan_in(op.kind));
}
template <class T>
constexpr std::int64_t bytes_moved(const activation_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N * (1 + 2 * fan_in(op.kind));
}

template <class T>
constexpr std::int64_t flops(const weighted_activation_forward<T>& op) {
  return op.R * op.N * (op.kind == activation::swiglu ? 7 : 13);
}
template <class T>
constexpr std::int64_t flops(const weighted_activation_backward<T>& op) {
  return op.R * op.N * (op.kind == activation::swiglu ? 16 : 34);
}
template <class T>
constexpr std::int64_t bytes_moved(const weighted_activation_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N * (1 + fan_in(op.kind))
         + std::int64_t{sizeof(accumulator<T>)} * op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const weighted_activation_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N * (1 + 2 * fan_in(op.kind))
         + std::int64_t{sizeof(accumulator<T>)} * 2 * op.R;
}

}  // namespace troupe::kernels
