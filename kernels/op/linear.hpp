// The matrix product of a layer, with its epilogue:
//
//   z[r,n] = sum_k x[r,k] * weight[n,k] + bias[n]          y = activation(z)
//
// and its two gradients, separately callable (schedules delay the second):
//
//   I:  dx[r,k]       = sum_n dz[r,n] * weight[n,k]        needs weight
//   W:  dweight[n,k] += sum_r dz[r,n] * x[r,k]             needs x; or =, for the first of a step
//       dbias[n]     += sum_r dz[r,n]                    likewise
//
// Where x was made by an activation, I goes on through that activation, while the sums are at hand:
//
//   I:  dx[r,k]       = (sum_n dz[r,n] * weight[n,k]) * activation'(z[r,k])
//
// with the z that x was made of: dx is then the gradient of that z. In bf16 and fp16 the activation
// may read z as it is stored, rounded, which is what its gradient reads; the sum may be rounded
// before the slope comes to it.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/kinds.hpp"

namespace troupe::kernels {

template <class T>
struct linear_forward {
  T* y;             ///< (R, N) written
  T* z;             ///< (R, N) written; null: not wanted, as in inference or without an activation
  const T* x;       ///< (R, K)
  const T* weight;  ///< (N, K)
  const T* bias;    ///< (N) or null
  std::int64_t R;   ///< rows, usually B * T
  std::int64_t N;   ///< output features
  std::int64_t K;   ///< input features
  epilogue activation = epilogue::none;
};

template <class T>
struct linear_backward_input {
  T* dx;            ///< (R, K) written
  const T* dz;      ///< (R, N)
  const T* weight;  ///< (N, K)
  std::int64_t R, N, K;
  epilogue activation = epilogue::none;  ///< that made x
  const T* z = nullptr;                  ///< (R, K) that it made x of; unread without an activation
};

template <class T>
struct linear_backward_weight {
  accumulator<T>* dweight;  ///< (N, K) accumulated, or written
  accumulator<T>* dbias;    ///< (N) accumulated, or written, or null
  const T* dz;              ///< (R, N)
  const T* x;               ///< (R, K)
  std::int64_t R, N, K;
  bool accumulates = true;  ///< to dweight; else it is written, whatever was there
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
