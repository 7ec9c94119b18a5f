// The loss of a micro-batch: the mean over the rows that count.
//
//   total  = sum_r loss[r] * mask[r]        tokens = sum_r mask[r]        in double, in row order
//   dloss[r] = mask[r] * float(scale / tokens)                            0 where tokens = 0
//   dloss[r] = mask[r] * float(scale)                                     without `tokens`
//
// The mean is total / tokens; `scale` is what the caller averages over, times fp16's loss scale;
// the divisor is read where it was written, if it is that of the micro-batch. It depends on the
// mask alone, and so is known before the losses are. A device adds lanes of 1,024 rows:
// masked_loss.cu.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct masked_loss_forward {
  double* total;      ///< (1) written; null: not wanted, and no loss is read
  double* tokens;     ///< (1) written
  const float* loss;  ///< (R); null without total
  const T* mask;      ///< (R) 0 or 1
  std::int64_t R;
};

template <class T>
struct masked_loss_backward {
  float* dloss;          ///< (R) written
  const T* mask;         ///< (R)
  const double* tokens;  ///< (1) of the forward pass; null: nothing more divides
  double scale;
  std::int64_t R;
};

/// What the gradient of each row that counts is, where `tokens` can be read on the host.
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
