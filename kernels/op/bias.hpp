// The gradient of a bias that is added after a product's parts were summed (dropout.hpp):
//
//   dbias[n] += sum_r dz[r,n]

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct bias_backward {
  accumulator<T>* dbias;  ///< (N) accumulated
  const T* dz;            ///< (R, N)
  std::int64_t R, N;
};

template <class T>
constexpr std::int64_t flops(const bias_backward<T>& op) {
  return op.R * op.N;
}
template <class T>
constexpr std::int64_t bytes_moved(const bias_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N + std::int64_t{sizeof(accumulator<T>)} * 2 * op.N;
}

}  // namespace troupe::kernels
