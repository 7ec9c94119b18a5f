#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const cache_rows<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    op.positions[op.at[r]] = op.position[r];
    for (std::int64_t g = 0; g < op.G; ++g)
      for (std::int64_t i = 0; i < op.width; ++i)
        op.entries[(op.at[r] * op.G + g) * op.width + i] = op.kv[r * op.row + g * op.group + i];
  }
}

template void run(const cache_rows<float>&);
template void run(const cache_rows<double>&);
template void run(const cache_rows<bf16>&);
template void run(const cache_rows<f16>&);

}  // namespace troupe::kernels::reference
