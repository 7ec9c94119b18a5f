// Dropout with bias and residual add:
//
//   y[r,c] = residual[r,c] + (x[r,c] + bias[c]) * m[r,c]
//   m[r,c] = 0 with probability p, else scale / (1 - p)
//
// The rows may be a part of the micro-batch: row r is row q = first_row + r of the micro-batch, in
// sequence q / T. The element is dropped if random word (q % T) * C + c of stream sample[q / T] is
// below drop_threshold(p). This depends only on (key, sample, element), so layout, device and order
// do not change it.
//
// Backward pass: dx = dy * m; the gradient of the residual is dy.
//
// Srivastava et al.: "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/philox.hpp"

namespace troupe::kernels {

template <class T>
struct dropout_forward {
  T* y;               ///< (R, C) written; may alias `x` or `residual`
  const T* x;         ///< (R, C)
  const T* residual;  ///< (R, C) or null
  std::int64_t R, C;
  std::int64_t T_;              ///< rows per sequence
  float p;                      ///< 0 <= p < 1
  std::uint64_t key;            ///< key of the random numbers
  const std::uint64_t* sample;  ///< (B) global sample positions; may be null if p = 0
  std::int64_t first_row = 0;
  const T* bias
      = nullptr;  ///< (C) bias of a row-parallel product, added after the all-reduce; or null
  float scale = 1;
};

template <class T>
struct dropout_backward {
  T* dx;        ///< (R, C) written; may alias `dy`
  const T* dy;  ///< (R, C)
  std::int64_t R, C;
  std::int64_t T_;
  float p;
  std::uint64_t key;
  const std::uint64_t* sample;
  std::int64_t first_row = 0;
  float scale = 1;
};

template <class T>
constexpr std::int64_t flops(const dropout_forward<T>& op) {
  return op.R * op.C
         * ((op.p > 0 || op.scale != 1 ? 1 : 0) + (op.residual ? 1 : 0) + (op.bias ? 1 : 0));
}
template <class T>
constexpr std::int64_t flops(const dropout_backward<T>& op) {
  return op.p > 0 || op.scale != 1 ? op.R * op.C : 0;
}
template <class T>
constexpr std::int64_t bytes_moved(const dropout_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.C * (op.residual ? 3 : 2);
}
template <class T>
constexpr std::int64_t bytes_moved(const dropout_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.C * 2;
}

}  // namespace troupe::kernels
