// The matrix product of a layer, with its epilogue:
//
//   z[r,n] = sum_k x[r,k] * weight[n,k] + bias[n]          y = activation(z)
//
// and its two gradients, which are separate operations because schedules delay the second:
//
//   I:  dx[r,k]       = sum_n dz[r,n] * weight[n,k]        needs weight
//   W:  dweight[n,k] += sum_r dz[r,n] * x[r,k]             needs x
//       dbias[n]     += sum_r dz[r,n]
//
// W overwrites instead of accumulating if told so, for the first micro-batch of a step. If x is the
// output of an activation, I also multiplies by the derivative of that activation:
//
//   I:  dx[r,k]       = (sum_n dz[r,n] * weight[n,k]) * activation'(z[r,k])
//
// where z is the input of the activation, so dx is the gradient of z. In bf16 and fp16 the forward
// activation may read z rounded, as it is stored for the backward pass. The sum in I may be rounded
// before the multiplication.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/kinds.hpp"

namespace troupe::kernels {

template <class T>
struct linear_forward {
  T* y;             ///< (R, N) written
  T* z;             ///< (R, N) written; or null if there is no activation or no backward pass
  const T* x;       ///< (R, K)
  const T* weight;  ///< (N, K)
  const T* bias;    ///< (N) or null
  std::int64_t R;   ///< rows, usually B * T
  std::int64_t N;   ///< output features
  std::int64_t K;   ///< input features
  epilogue activation = epilogue::none;
  /// true: on CPUs the bits of a row do not depend on R. Slower for many rows, except in bf16 on a
  /// processor with tiles, where it changes nothing.
  bool row_invariant = false;
};

template <class T>
struct linear_backward_input {
  T* dx;            ///< (R, K) written
  const T* dz;      ///< (R, N)
  const T* weight;  ///< (N, K)
  std::int64_t R, N, K;
  epilogue activation = epilogue::none;  ///< the activation that produced x
  const T* z = nullptr;                  ///< (R, K) its input; unused without an activation
};

template <class T>
struct linear_backward_weight {
  accumulator<T>* dweight;  ///< (N, K) accumulated, or written
  accumulator<T>* dbias;    ///< (N) accumulated, or written, or null
  const T* dz;              ///< (R, N)
  const T* x;               ///< (R, K)
  std::int64_t R, N, K;
  bool accumulates = true;  ///< false: dweight is overwritten
  bool bias_accumulates = true;
};

template <class Op>
constexpr std::int64_t product_flops(const Op& op) {
  return 2 * op.R * op.N * op.K;
}
template <class T>
constexpr std::int64_t flops(const linear_forward<T>& op) {
  return product_flops(op) + (op.bias ? op.R * op.N : 0);
}
template <class T>
constexpr std::int64_t flops(const linear_backward_input<T>& op) {
  return product_flops(op) + (op.activation == epilogue::none ? 0 : 20 * op.R * op.K);
}
template <class T>
constexpr std::int64_t flops(const linear_backward_weight<T>& op) {
  return product_flops(op) + (op.dbias ? op.R * op.N : 0);
}
template <class T>
constexpr std::int64_t bytes_moved(const linear_forward<T>& op) {
  return std::int64_t{sizeof(T)}
         * (op.R * op.K + op.N * op.K + op.R * op.N * (op.z ? 2 : 1) + (op.bias ? op.N : 0));
}
template <class T>
constexpr std::int64_t bytes_moved(const linear_backward_input<T>& op) {
  return std::int64_t{sizeof(T)}
         * (op.R * op.N + op.N * op.K + op.R * op.K * (op.activation == epilogue::none ? 1 : 2));
}
template <class T>
constexpr std::int64_t bytes_moved(const linear_backward_weight<T>& op) {
  return std::int64_t{sizeof(T)} * (op.R * op.N + op.R * op.K)
         + std::int64_t{sizeof(accumulator<T>)}
               * (op.N * op.K * (op.accumulates ? 2 : 1)
                  + (op.dbias ? op.N * (op.bias_accumulates ? 2 : 1) : 0));
}

}  // namespace troupe::kernels
