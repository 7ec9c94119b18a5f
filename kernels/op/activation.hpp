// Activations of the feed-forward layer, forward and backward.
//
//   gelu_tanh     f(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//   gelu_erf      f(x) = x/2 * (1 + erf(x / sqrt(2)))
//   silu          f(x) = x / (1 + exp(-x))
//   squared_relu  f(x) = max(x, 0)^2
//   relu          f(x) = max(x, 0)
//   tanh          f(x) = tanh(x)
//   quick_gelu    f(x) = x / (1 + exp(-1.702 x))
//
//   y = f(x)                                            width N -> N
//   y = f(gate) * linear, x = [gate | linear] in a row  width 2N -> N; gated, in Megatron's order
//
// SwiGLU is the gated silu, GEGLU the gated GELU. The slope of relu at 0 is 0.
//
// With weights, such as those of an expert for its tokens, row r of y is multiplied by weight[r].
// The backward pass then also gives dweight[r], the sum over n of dy[r,n] times the y[r,n] that
// weight 1 gives.
//
// So et al.: "Primer", 2021 (squared ReLU). Hendrycks, Gimpel: "Gaussian Error Linear Units", 2016
// (both GELUs, and quick_gelu). Shazeer: "GLU Variants Improve Transformer", 2020.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/kinds.hpp"

namespace troupe::kernels {

template <class T>
struct activation_forward {
  T* y;        ///< (R, N) written; may alias `x` if not gated
  const T* x;  ///< (R, fan_in * N)
  std::int64_t R, N;
  activation kind;
  bool gated = false;
  const accumulator<T>* weight = nullptr;  ///< (R) or null
};

template <class T>
struct activation_backward {
  T* dx;        ///< (R, fan_in * N) written; may alias `x`, and `dy` if not gated
  const T* dy;  ///< (R, N)
  const T* x;   ///< (R, fan_in * N)
  std::int64_t R, N;
  activation kind;
  bool gated = false;
  const accumulator<T>* weight = nullptr;  ///< (R) or null
  accumulator<T>* dweight = nullptr;       ///< (R) written; null without `weight`
};

constexpr std::int64_t function_flops(activation kind) {
  switch (kind) {
    case activation::gelu_tanh:
    case activation::gelu_erf:
      return 12;
    case activation::silu:
    case activation::tanh:
    case activation::quick_gelu:
      return 5;
    case activation::squared_relu:
    case activation::relu:
      break;
  }
  return 1;
}

template <class T>
constexpr std::int64_t flops(const activation_forward<T>& op) {
  return op.R * op.N * (function_flops(op.kind) + (op.gated ? 1 : 0) + (op.weight ? 1 : 0));
}
template <class T>
constexpr std::int64_t flops(const activation_backward<T>& op) {
  const auto of_function = 2 * function_flops(op.kind);
  return op.R * op.N * (of_function + (op.gated ? 2 : 0) + (op.weight ? 4 : 0));
}
template <class T>
constexpr std::int64_t bytes_moved(const activation_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N * (1 + fan_in(op.gated))
         + (op.weight ? std::int64_t{sizeof(accumulator<T>)} * op.R : 0);
}
template <class T>
constexpr std::int64_t bytes_moved(const activation_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N * (1 + 2 * fan_in(op.gated))
         + (op.weight ? std::int64_t{sizeof(accumulator<T>)} * 2 * op.R : 0);
}

}  // namespace troupe::kernels
