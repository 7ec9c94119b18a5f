// Conversions between float and a narrow type.
//
//   narrow    y[i] = x[i], rounded to nearest, ties to even
//   widen     y[i] = x[i], exactly

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct narrow {
  T* y;            ///< (n) written
  const float* x;  ///< (n)
  std::int64_t n;
};

template <class T>
struct widen {
  float* y;    ///< (n) written
  const T* x;  ///< (n)
  std::int64_t n;
};

template <class T>
constexpr std::int64_t flops(const narrow<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t flops(const widen<T>&) {
  return 0;
}
template <class T>
constexpr std::int64_t bytes_moved(const narrow<T>& op) {
  return (4 + std::int64_t{sizeof(T)}) * op.n;
}
template <class T>
constexpr std::int64_t bytes_moved(const widen<T>& op) {
  return (4 + std::int64_t{sizeof(T)}) * op.n;
}

}  // namespace troupe::kernels
