// The products of experts: rows in groups, and a weight for each group.
//
//   y[r,n] = sum_k x[r,k] * weight[e,n,k] + bias[e,n]        for the expert e of the group of r
//
// and its two gradients, split as those of linear.hpp:
//
//   I:  dx[r,k]         = sum_n dy[r,n] * weight[e,n,k]
//   W:  dweight[e,n,k] += sum_r dy[r,n] * x[r,k]       r: the rows of the groups of e, in order
//       dbias[e,n]     += sum_r dy[r,n]
//
// W adds group by group: the bits are those of one call per group. W reads no weight, so `expert`
// may also number other sums: with one per (expert, source rank), each source has its own.
//
// A group is (expert, source rank) where ranks share experts. So products have the shapes that a
// rank with all experts has. The bits of a group do not depend on the other groups, the number of
// threads or its place (GROUP-2). Groups ordered by expert are fastest: adjacent ones share a
// packed weight. Groups may be empty. An expert without rows has a gradient of 0.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

/// Host arrays. Group g has the rows [offsets[g], offsets[g + 1]).
struct row_groups {
  const std::int64_t* offsets;  ///< (G + 1) host, ascending from 0 to R; of W R rows from any row
  const std::int32_t* expert;   ///< (G) host, below E
  std::int64_t G;

  std::int64_t rows(std::int64_t g) const { return offsets[g + 1] - offsets[g]; }

  /// Calls add(its first row, rows, whether it is the first) for each group of expert e in order;
  /// for an expert without groups once, with 0 rows.
  template <class Add>
  void each_of(std::int64_t e, const Add& add) const {
    bool first = true;
    for (std::int64_t g = 0; g < G; ++g)
      if (expert[g] == e) {
        add(offsets[g], rows(g), first);
        first = false;
      }
    if (first)
      add(std::int64_t{0}, std::int64_t{0}, true);
  }
};

template <class T>
struct grouped_linear_forward {
  T* y;             ///< (R, N) written
  const T* x;       ///< (R, K)
  const T* weight;  ///< (E, N, K)
  const T* bias;    ///< (E, N) or null
  row_groups groups;
  std::int64_t R, E, N, K;
  bool row_invariant = false;  ///< as in linear_forward
};

template <class T>
struct grouped_linear_backward_input {
  T* dx;            ///< (R, K) written
  const T* dy;      ///< (R, N)
  const T* weight;  ///< (E, N, K)
  row_groups groups;
  std::int64_t R, E, N, K;
};

template <class T>
struct grouped_linear_backward_weight {
  accumulator<T>* dweight;  ///< (E, N, K) accumulated, or written
  accumulator<T>* dbias;    ///< (E, N) accumulated, or written, or null
  const T* dy;              ///< (R, N)
  const T* x;               ///< (R, K)
  row_groups groups;
  std::int64_t R, E, N, K;
  bool accumulates = true;  ///< false: dweight is overwritten
  bool bias_accumulates = true;
};

template <class T>
constexpr std::int64_t flops(const grouped_linear_forward<T>& op) {
  return 2 * op.R * op.N * op.K + (op.bias ? op.R * op.N : 0);
}
template <class T>
constexpr std::int64_t flops(const grouped_linear_backward_input<T>& op) {
  return 2 * op.R * op.N * op.K;
}
template <class T>
constexpr std::int64_t flops(const grouped_linear_backward_weight<T>& op) {
  return 2 * op.R * op.N * op.K + (op.dbias ? op.R * op.N : 0);
}
// As if every expert had rows.
template <class T>
constexpr std::int64_t bytes_moved(const grouped_linear_forward<T>& op) {
  return std::int64_t{sizeof(T)}
         * (op.R * (op.K + op.N) + op.E * op.N * (op.K + (op.bias ? 1 : 0)));
}
template <class T>
constexpr std::int64_t bytes_moved(const grouped_linear_backward_input<T>& op) {
  return std::int64_t{sizeof(T)} * (op.R * (op.K + op.N) + op.E * op.N * op.K);
}
template <class T>
constexpr std::int64_t bytes_moved(const grouped_linear_backward_weight<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * (op.N + op.K)
         + std::int64_t{sizeof(accumulator<T>)} * op.E * op.N
               * (op.K * (op.accumulates ? 2 : 1) + (op.dbias ? (op.bias_accumulates ? 2 : 1) : 0));
}

}  // namespace troupe::kernels
