#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const permute<T>& op) {
  for (std::int64_t s = 0; s < op.S; ++s) {
    const std::int64_t place = op.place[s];
    const double weight = op.weight && place >= 0 ? double(op.weight[place]) : 1;
    for (std::int64_t c = 0; c < op.C; ++c)
      op.y[s * op.C + c]
          = place < 0 ? T(0.0) : T(weight * double(op.x[place / op.slots * op.C + c]));
  }
}

template <class T>
void run(const unpermute<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r)
    for (std::int64_t c = 0; c < op.C; ++c) {
      double sum = 0;
      for (std::int64_t j = r * op.slots; j < (r + 1) * op.slots; ++j)
        if (op.slot[j] >= 0)
          sum += (op.weight ? double(op.weight[j]) : 1) * double(op.x[op.slot[j] * op.C + c]);
      op.y[r * op.C + c] = T(sum);
    }
}

template <class T>
void run(const unpermute_backward_weight<T>& op) {
  for (std::int64_t j = 0; j < op.R * op.slots; ++j) {
    double sum = 0;
    if (op.slot[j] >= 0)
      for (std::int64_t c = 0; c < op.C; ++c)
        sum += double(op.dy[j / op.slots * op.C + c]) * double(op.x[op.slot[j] * op.C + c]);
    op.dweight[j] = accumulator<T>(sum);
  }
}

#define TROUPE_INSTANTIATE(T)             \
  template void run(const permute<T>&);   \
  template void run(const unpermute<T>&); \
  template void run(const unpermute_backward_weight<T>&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(double)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::reference
