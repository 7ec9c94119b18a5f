// How many elements of a flat array are zero, of either sign; NaN is none.
//
//   count_zeros    result = |{ i : x[i] == 0 }|
//
// A count has no rounding: any parts of an array, counted in any order, add up to it.

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
