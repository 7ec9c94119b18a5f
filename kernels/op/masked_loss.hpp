// The loss of a micro-batch: the mean over the unmasked rows.
//
//   total  = sum_r loss[r] * mask[r]        tokens = sum_r mask[r]        in double, in row order
//   dloss[r] = mask[r] * float(scale / tokens)                            0 where tokens = 0
//   dloss[r] = mask[r] * float(scale)                                     without `tokens`
//
// The mean loss is total / tokens. `scale` holds the caller's averaging factor and the fp16 loss
// scale. If `tokens` is set, it is the count that the forward pass wrote. It depends on the mask
// alone, so it is known before the losses. The summation order on a device is in masked_loss.cu:
// lanes of 1,024 rows.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct masked_loss_forward {
  double* total;      ///< (1) written; null: only tokens are counted
  double* tokens;     ///< (1) written
  const float* loss;  ///< (R); null if `total` is null
  const T* mask;      ///< (R) 0 or 1
  std::int64_t R;
};

template <class T>
struct masked_loss_backward {
  float* dloss;          ///< (R) written
  const T* mask;         ///< (R)
  const double* tokens;  ///< (1) from the forward pass; null: no further division
  double scale;
  std::int64_t R;
};

/// The gradient of each unmasked row; `tokens` must be host-readable.
template <class T>
constexpr float row_factor(const masked_loss_backward<T>& op) {
  const double divisor = op.tokens != nullptr ? *op.tokens : 1;
  return divisor > 0 ? float(op.scale / divisor) : 0.0F;
}

template <class T>
constexpr std::int64_t flops(const masked_loss_forward<T>& op) {
  return (op.total != nullptr ? 3 : 1) * op.R;
}
template <class T>
constexpr std::int64_t flops(const masked_loss_backward<T>& op) {
  return op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const masked_loss_forward<T>& op) {
  return ((op.total != nullptr ? 4 : 0) + std::int64_t{sizeof(T)}) * op.R;
}
template <class T>
constexpr std::int64_t bytes_moved(const masked_loss_backward<T>& op) {
  return (4 + std::int64_t{sizeof(T)}) * op.R;
}

}  // namespace troupe::kernels
