// Gradient of a bias that is added after the partial products are summed (dropout.hpp):
//
//   dbias[n] += sum_r dz[r,n]
//
// Without `accumulates`, dbias = 0 + the sum: the same bits as accumulating into a cleared array.

#pragma once

#include "kernels/op/context.hpp"

namespace troupe::kernels {

template <class T>
struct bias_backward {
  accumulator<T>* dbias;  ///< (N) accumulated, or written
  const T* dz;            ///< (R, N)
  std::int64_t R, N;
  bool accumulates = true;  ///< false: dbias is overwritten
};

template <class T>
constexpr std::int64_t flops(const bias_backward<T>& op) {
  return op.R * op.N;
}
template <class T>
constexpr std::int64_t bytes_moved(const bias_backward<T>& op) {
  return std::int64_t{sizeof(T)} * op.R * op.N
         + std::int64_t{sizeof(accumulator<T>)} * op.N * (op.accumulates ? 2 : 1);
}

}  // namespace troupe::kernels
