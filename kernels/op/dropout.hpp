// Dropout, with the skip connection that follows it:
//
//   y[r,c] = residual[r,c] + (x[r,c] + bias[c]) * m[r,c]
//   m[r,c] = 0 with probability p, else 1 / (1 - p)
//
// Srivastava et al., 2014. The rows may be a part of the micro-batch: row r here is row
// q = first_row + r there, and belongs to its sequence q / T; word number (q % T) * C + c of the
// stream sample[q / T] is dropped below drop_threshold(p): a function of
// (key, sample, element) alone, so that no layout, device or order changes it.
//
// Backwards: dx = dy * m; the gradient of the residual is dy itself.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/philox.hpp"

namespace troupe::kernels {

template <class T>
struct dropout_forward {
  T* y;               ///< (R, C) written; may be `x` or `residual`
  const T* x;         ///< (R, C)
  const T* residual;  ///< (R, C) or null
  std::int64_t R, C;
  std::int64_t T_;              ///< rows of a sequence
  float p;                      ///< 0 <= p < 1
  std::uint64_t key;            ///< of the random numbers
  const std::uint64_t* sample;  ///< (B) global sample positions; may be null if p = 0
  std::int64_t first_row = 0;
  const T* bias = nullptr;  ///< (C) or null; of a product whose parts were summed before
};

template <class T>
struct dropout_backward {
  T* dx;        ///< (R, C) written; may be `dy`
  const T* dy;  ///< (R, C)
  std::int64_t R, C;
  std::int64_t T_;
  float p;
  std::uint64_t key;
  const std::uint64_t* sample;
  std::int64_t first_row = 0;
};

template <class T>
constexpr std::int64_t flops(const dropout_forward<T>& op) {
  return op.R * op.C * ((op.p > 0 ? 1 : 0) + (op.residual ? 1 : 0) + (op.bias ? 1 : 0));
}
template <class T>
constexpr std::int64_t flops(const dropout_backward<T>& op) {
  return op.p > 0 ? op.R * op.C : 0;
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
