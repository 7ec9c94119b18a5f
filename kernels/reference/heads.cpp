#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const copy_heads<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r)
    for (std::int64_t g = 0; g < op.G; ++g)
      for (std::int64_t i = 0; i < op.width; ++i)
        op.to[r * op.to_row + g * op.to_group + i]
            = op.from[r * op.from_row + g * op.from_group + i];
}

template <class T>
void run(const sum_heads<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r)
    for (std::int64_t i = 0; i < op.width; ++i) {
      double sum = 0;
      for (std::int64_t g = 0; g < op.G; ++g)
        sum += double(op.from[r * op.from_row + g * op.from_group + i]);
      op.to[r * op.to_row + i] = T(sum);
    }
}

template void run(const copy_heads<float>&);
template void run(const copy_heads<double>&);
template void run(const copy_heads<bf16>&);
template void run(const copy_heads<f16>&);
template void run(const sum_heads<float>&);
template void run(const sum_heads<double>&);
template void run(const sum_heads<bf16>&);
template void run(const sum_heads<f16>&);

}  // namespace troupe::kernels::reference
