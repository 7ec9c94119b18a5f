// Moves of heads between arrays of different layouts, for attention over parts of several products:
//
//   copy_heads:  to[r,g] = from[r,g]          with from_group = 0 every group gets the same source
//   sum_heads:   to[r]   = sum_g from[r,g]    the gradient of that source, in the order of groups
//
// A head is `width` adjacent elements. A sum is rounded once.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct copy_heads {
  T* to;                              ///< (R, G, width) written; strides below
  const T* from;                      ///< (R, G, width)
  std::int64_t R, G, width;           ///< rows, groups, elements of a head
  std::int64_t to_row, to_group;      ///< strides, in elements
  std::int64_t from_row, from_group;  ///< from_group may be 0
};

template <class T>
struct sum_heads {
  T* to;          ///< (R, width) written
  const T* from;  ///< (R, G, width)
  std::int64_t R, G, width;
  std::int64_t to_row;  ///< strides, in elements
  std::int64_t from_row, from_group;
};

template <class T>
constexpr std::int64_t flops(const copy_heads<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t flops(const sum_heads<T>& op) {
  return op.R * op.G * op.width;
}
template <class T>
constexpr std::int64_t bytes_moved(const copy_heads<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.width * (op.G + (op.from_group == 0 ? 1 : op.G));
}
template <class T>
constexpr std::int64_t bytes_moved(const sum_heads<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.width * (op.G + 1);
}

}  // namespace troupe::kernels
