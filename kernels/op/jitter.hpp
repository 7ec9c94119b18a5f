// Multiplies by random factors near 1, for the input of a router:
//
//   y[r,c] = x[r,c] * (1 - eps + 2 eps u[r,c])        u in [0, 1)
//
// u is the upper 24 bits of a random word by 2^24. Words are numbered as in dropout.hpp. The
// backward pass is the same operation on dy.
//
// Fedus, Zoph, Shazeer: "Switch Transformers", 2021.

#pragma once

#include "kernels/op/context.hpp"
#include "kernels/op/philox.hpp"

namespace troupe::kernels {

template <class T>
struct jitter {
  T* y;        ///< (R, C) written; may alias `x`
  const T* x;  ///< (R, C)
  std::int64_t R, C;
  std::int64_t T_;  ///< rows per sequence
  float eps;
  std::uint64_t key;
  const std::uint64_t* sample;  ///< (B) global sample positions
  std::int64_t first_row = 0;
};

template <class T>
constexpr std::int64_t flops(const jitter<T>& op) {
  return 2 * op.R * op.C;
}
template <class T>
constexpr std::int64_t bytes_moved(const jitter<T>& op) {
  return std::int64_t{sizeof(T)} * 2 * op.R * op.C;
}

}  // namespace troupe::kernels
