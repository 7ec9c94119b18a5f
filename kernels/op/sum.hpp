// Sums over flat arrays, in a fixed order.
//
//   add            y[i] = a[i] + b[i]
//   ordered_sum    y[i] = (((x_0[i] + x_1[i]) + x_2[i]) + ...) * scale       sources in rank order,
//                  summed in float where T is narrower, rounded once
//   square_norm    the sum of x[i]^2 in double: partial sums of 4,096 elements, added in order, so
//                  that neither the number of threads nor the width of a vector changes its bits

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct add {
  T* y;        ///< (n) written; may be `a` or `b`
  const T* a;  ///< (n)
  const T* b;  ///< (n)
  std::int64_t n;
};

template <class T>
struct ordered_sum {
  T* y;               ///< (n) written; may be one of the sources
  const T* const* x;  ///< (sources) arrays of n elements
  std::int64_t sources;
  std::int64_t n;
  accumulator<T> scale = 1;
};

template <class T>
struct square_norm {
  double* result;  ///< (1) written
  const T* x;      ///< (n)
  std::int64_t n;

  /// Elements of one partial sum. Within it, lane l of 16 takes elements l, l + 16, ..., and the
  /// lanes are added in order.
  static constexpr std::int64_t block = 4096;
  static constexpr int lanes = 16;
};

template <class T>
constexpr std::int64_t flops(const add<T>& op) {
  return op.n;
}
template <class T>
constexpr std::int64_t flops(const ordered_sum<T>& op) {
  return op.n * op.sources;
}
template <class T>
constexpr std::int64_t flops(const square_norm<T>& op) {
  return 2 * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const add<T>& op) {
  return std::int64_t{sizeof(T)} * 3 * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const ordered_sum<T>& op) {
  return std::int64_t{sizeof(T)} * (op.sources + 1) * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const square_norm<T>& op) {
  return std::int64_t{sizeof(T)} * op.n;
}

/// Scratch of square_norm: one double a block.
template <class T>
constexpr std::size_t workspace_bytes(const square_norm<T>& op, int) {
  return sizeof(double) * std::size_t((op.n + op.block - 1) / op.block);
}

}  // namespace troupe::kernels
