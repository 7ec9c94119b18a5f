// Embedding of tokens, and of positions where they are learned.
//
//   y[r] = table[id[r]] + position_table[position[r]]
//
// Backwards: dtable[id[r]] += dy[r], into a table that is cleared before or not, and
// dposition_table[position[r]] += dy[r], in the order of the rows, so that the sum has the same
// bits whatever the number of threads. Where an id or a position comes more often than `part` times
// a device adds the rows by parts of so many: the first to what is there, each other to nothing,
// and then these sums in their order.
//
// The table may be a part of a larger one: an id outside [first, first + rows) finds zeros, and its
// gradient goes nowhere. Otherwise the ids are below V, and the positions below P: the caller has
// checked them.

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
  std::int32_t rows = std::numeric_limits<std::int32_t>::max();  ///< of the table
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
  bool accumulates = true;  ///< else dtable is cleared before: `rows` must then be given

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
