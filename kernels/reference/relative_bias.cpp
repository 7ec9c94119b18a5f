#include "kernels/reference/reference.hpp"

#include <vector>

namespace troupe::kernels::reference {

template <class T>
void run(const relative_bias_forward<T>& op) {
  for (std::int64_t h = 0; h < op.H; ++h)
    for (std::int64_t i = 0; i < op.count; ++i)
      op.bias[h * op.count + i] = accumulator<T>(op.table[op.bucket[i] * op.H + h]);
}

template <class T>
void run(const relative_bias_backward<T>& op) {
  std::vector<double> sums(std::size_t(op.buckets * op.H));
  for (std::int64_t h = 0; h < op.H; ++h)
    for (std::int64_t i = 0; i < op.count; ++i)
      sums[std::size_t(op.bucket[i] * op.H + h)] += double(op.dbias[h * op.count + i]);
  for (std::size_t at = 0; at < sums.size(); ++at)
    op.dtable[at] = accumulator<T>((op.accumulates ? double(op.dtable[at]) : 0.0) + sums[at]);
}

#define TROUPE_DEFINE(T)                              \
  template void run(const relative_bias_forward<T>&); \
  template void run(const relative_bias_backward<T>&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(double)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::reference
