// An owner (ops.hpp) of activations whose rows have weights. The weights scale without rounding.

#pragma once

#include "tests/support/ops.hpp"

namespace troupe::tests {

template <class T>
struct weighted_activation_memory : activation_memory<T> {
  std::vector<kernels::accumulator<T>> weight
      = std::vector<kernels::accumulator<T>>(std::size_t(this->R), 0.5F);
  std::vector<kernels::accumulator<T>> dweight = blank<kernels::accumulator<T>>(this->R);

  kernels::activation_forward<T> forward() {
    auto op = activation_memory<T>::forward();
    op.weight = weight.data();
    return op;
  }
  kernels::activation_backward<T> backward() {
    auto op = activation_memory<T>::backward();
    op.weight = weight.data();
    op.dweight = dweight.data();
    return op;
  }
};

}  // namespace troupe::tests
