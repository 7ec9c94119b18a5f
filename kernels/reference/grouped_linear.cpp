#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

// Each group is a product of linear.cpp.

template <class T>
void run(const grouped_linear_forward<T>& op) {
  for (std::int64_t g = 0; g < op.groups.G; ++g) {
    const std::int64_t begin = op.groups.offsets[g], e = op.groups.expert[g];
    run(linear_forward<T>{.y = op.y + begin * op.N,
                          .z = nullptr,
                          .x = op.x + begin * op.K,
                          .weight = op.weight + e * op.N * op.K,
                          .bias = op.bias ? op.bias + e * op.N : nullptr,
                          .R = op.groups.rows(g),
                          .N = op.N,
                          .K = op.K});
  }
}

template <class T>
void run(const grouped_linear_backward_input<T>& op) {
  for (std::int64_t g = 0; g < op.groups.G; ++g) {
    const std::int64_t begin = op.groups.offsets[g], e = op.groups.expert[g];
    run(linear_backward_input<T>{.dx = op.dx + begin * op.K,
                                 .dz = op.dy + begin * op.N,
                                 .weight = op.weight + e * op.N * op.K,
                                 .R = op.groups.rows(g),
                                 .N = op.N,
                                 .K = op.K});
  }
}

template <class T>
void run(const grouped_linear_backward_weight<T>& op) {
  for (std::int64_t e = 0; e < op.E; ++e)
    op.groups.each_of(e, [&](std::int64_t begin, std::int64_t rows, bool first) {
      run(linear_backward_weight<T>{.dweight = op.dweight + e * op.N * op.K,
                                    .dbias = op.dbias ? op.dbias + e * op.N : nullptr,
                                    .dz = op.dy + begin * op.N,
                                    .x = op.x + begin * op.K,
                                    .R = rows,
                                    .N = op.N,
                                    .K = op.K,
                                    .accumulates = op.accumulates || !first,
                                    .bias_accumulates = op.bias_accumulates || !first});
    });
}

#define TROUPE_INSTANTIATE(T)                                 \
  template void run(const grouped_linear_forward<T>&);        \
  template void run(const grouped_linear_backward_input<T>&); \
  template void run(const grouped_linear_backward_weight<T>&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::reference
