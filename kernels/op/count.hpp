// Counts the zeros of a flat array. Both signs of zero count; NaN does not.
//
//   count_zeros    result = |{ i : x[i] == 0 }|
//
// Counts are exact: the counts of parts, in any order, add up to that of the whole.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct count_zeros {
  std::int64_t* result;  ///< (1) written
  const T* x;            ///< (n)
  std::int64_t n;
};

template <class T>
constexpr std::int64_t flops(const count_zeros<T>& op) {
  return op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const count_zeros<T>& op) {
  return std::int64_t{sizeof(T)} * op.n;
}

}  // namespace troupe::kernels
