// Sums over flat arrays, in a fixed order.
//
//   add            y[i] = a[i] + b[i]
//   ordered_sum    y[i] = (((x_0[i] + x_1[i]) + x_2[i]) + ...) * scale       sources in rank order,
//                  summed in float if T is narrower, rounded once
//   square_norm    sum of x[i]^2 in double: partial sums of 4,096 elements, added in order, so
//                  thread count and vector width do not change the bits
//   square_norms   square_norm of each grain of many arrays; optionally also the fingerprints of
//                  the arrays (fingerprint.hpp), in the same pass

#pragma once

#include "kernels/op/grain.hpp"

namespace troupe::kernels {

template <class T>
struct add {
  T* y;        ///< (n) written; may alias `a` or `b`
  const T* a;  ///< (n)
  const T* b;  ///< (n)
  std::int64_t n;
};

template <class T>
struct ordered_sum {
  T* y;               ///< (n) written; may alias a source
  const T* const* x;  ///< (sources) host: arrays of n elements
  std::int64_t sources;
  std::int64_t n;
  accumulator<T> scale = 1;
};

template <class T>
struct square_norm {
  double* result;  ///< (1) written
  const T* x;      ///< (n)
  std::int64_t n;

  /// Elements per partial sum. Lane l of 16 adds elements l, l + 16, ...; then lanes are added in
  /// order.
  static constexpr std::int64_t block = 4096;
  static constexpr int lanes = 16;
};

template <class T>
struct square_norms {
  struct piece {
    const T* x;  ///< (n)
    std::int64_t n;
    /// (grains_in(n, grain)) fingerprint keys; read only if `fingerprints` is set
    const std::uint64_t* keys = nullptr;
  };
  double* results;      ///< (grains_of(op)) written, piece after piece
  const piece* pieces;  ///< (count) host
  std::int64_t count;
  std::int64_t grain;                     ///< in elements; at least 1
  std::uint64_t* fingerprints = nullptr;  ///< (count, 2) written, or null
};

/// Calls visit(operation) for each grain, in the order of `results`.
template <class T, class Visit>
constexpr void for_each_grain(const square_norms<T>& op, const Visit& visit) {
  double* result = op.results;
  for (std::int64_t i = 0; i < op.count; ++i) {
    const auto& all = op.pieces[i];
    for (std::int64_t begin = 0; begin < all.n; begin += op.grain)
      visit(square_norm<T>{
          result++, all.x + begin, all.n - begin < op.grain ? all.n - begin : op.grain});
  }
}

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

/// Scratch: one double per block.
template <class T>
constexpr std::size_t workspace_bytes(const square_norm<T>& op, int) {
  return sizeof(double) * std::size_t((op.n + op.block - 1) / op.block);
}

template <class T>
constexpr std::int64_t flops(const square_norms<T>& op) {
  return 2 * elements_of(op);
}
template <class T>
constexpr std::int64_t bytes_moved(const square_norms<T>& op) {
  return std::int64_t{sizeof(T)} * elements_of(op);
}
/// Scratch: one double per block of every grain.
template <class T>
constexpr std::size_t workspace_bytes(const square_norms<T>& op, int threads) {
  std::size_t sum = 0;
  for (std::int64_t i = 0; i < op.count; ++i) {
    const auto n = op.pieces[i].n, whole = n / op.grain;
    sum += std::size_t(whole) * workspace_bytes(square_norm<T>{nullptr, nullptr, op.grain}, threads)
           + workspace_bytes(square_norm<T>{nullptr, nullptr, n - whole * op.grain}, threads);
  }
  return sum;
}

}  // namespace troupe::kernels
