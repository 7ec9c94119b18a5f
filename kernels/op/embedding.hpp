// Token embedding, with optional learned position embedding. Without positions it also gathers rows
// of a variable, and its backward pass scatters them (runtime/autograd/rows.cpp).
//
//   y[r] = table[id[r]] + position_table[position[r]]
//
// Backward pass: dtable[id[r]] += dy[r] and dposition_table[position[r]] += dy[r], in row order, so
// the bits are independent of the thread count. A device handles an id or position with more than
// `part` rows in parts of `part` rows: the first part is added to the existing value, the others to
// zero. Then the partial sums are added in order.
//
// The table may be a shard with the ids [first, first + rows). Ids outside it give zeros and get no
// gradient. Otherwise the caller guarantees ids below V and positions below P.

#pragma once

#include "kernels/op/context.hpp"

#include <limits>

namespace troupe::kernels {

template <class T>
struct embedding_forward {
  T* y;                          ///< (R, C) written
  const T* table;                ///< (V, C)
  const std::int32_t* id;        ///< (R)
  const T* position_table;       ///< (P, C) or null
  const std::int32_t* position;  ///< (R), may be null without a position table
  std::int64_t R, C;
  std::int32_t first = 0;                                        ///< id of the table's first row
  std::int32_t rows = std::numeric_limits<std::int32_t>::max();  ///< rows of the table
};

template <class T>
struct embedding_backward {
  accumulator<T>* dtable;           ///< (V, C) accumulated, or (rows, C) written
  const std::int32_t* id;           ///< (R)
  accumulator<T>* dposition_table;  ///< (P, C) accumulated, or null
  const std::int32_t* position;     ///< (R)
  const T* dy;                      ///< (R, C)
  std::int64_t R, C;
  std::int32_t first = 0;
  std::int32_t rows = std::numeric_limits<std::int32_t>::max();
  bool accumulates = true;  ///< false: dtable is cleared first; `rows` must be set

  static constexpr std::int64_t part = 256;
};

template <class T>
constexpr std::int64_t flops(const embedding_forward<T>& op) {
  return op.position_table ? op.R * op.C : 0;
}
template <class T>
constexpr std::int64_t flops(const embedding_backward<T>& op) {
  return op.R * op.C * (op.dposition_table ? 2 : 1);
}
template <class T>
constexpr std::int64_t bytes_moved(const embedding_forward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.C * (op.position_table ? 3 : 2)
         + 4 * op.R * (op.position_table ? 2 : 1);
}
template <class T>
constexpr std::int64_t bytes_moved(const embedding_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.C + 4 * op.R * (op.dposition_table ? 2 : 1)
         + std::int64_t{sizeof(accumulator<T>)} * op.C
               * ((op.accumulates ? 0 : op.rows) + 2 * op.R * (op.dposition_table ? 2 : 1));
}

}  // namespace troupe::kernels
