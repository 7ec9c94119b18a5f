// An owner (ops.hpp) of activations whose rows have weights. The weights scale without rounding.

#pragma once

#include "tests/support/ops.hpp"

namespace troupe::tests {

template <class T>
struct weighted_activation_memory : activation_memory<T> {
  std::vector<kernels::accumulator<T>> weight
      = std::vector<kernels::accumulator<T>>(std::size_t(this->R), 0.5F);
  std::vector<kernels::accumulator<T>> dweight = blank<kernels::accumulator<T>>(this->R);

  kernels::weighted_activation_forward<T> forward() {
    return {.y = this->y.data(),
            .x = this->x.data(),
            .weight = weight.data(),
            .R = this->R,
            .N = this->N,
            .kind = this->kind};
  }
  kernels::weighted_activation_backward<T> backward() {
    return {.dx = this->dx.data(),
            .dweight = dweight.data(),
            .dy = this->dy.data(),
            .x = this->x.data(),
            .weight = weight.data(),
            .R = this->R,
            .N = this->N,
            .kind = this->kind};
  }
};

}  // namespace troupe::tests
