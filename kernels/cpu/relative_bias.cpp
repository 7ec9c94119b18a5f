#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"

namespace troupe::kernels::cpu {

template <class T>
void run(const relative_bias_forward<T>& op, const context& in) {
  const std::int64_t grain = rows_worth_a_thread(op.count);
  split(in.threads, op.H, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h)
      for (std::int64_t i = 0; i < op.count; ++i)
        op.bias[h * op.count + i] = float(op.table[op.bucket[i] * op.H + h]);
  });
}

template <class T>
void run(const relative_bias_backward<T>& op, const context& in) {
  const std::int64_t grain = rows_worth_a_thread(op.buckets + op.count);
  split(in.threads, op.H, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      for (std::int64_t b = 0; b < op.buckets && !op.accumulates; ++b)
        op.dtable[b * op.H + h] = 0;
      for (std::int64_t i = 0; i < op.count; ++i)
        op.dtable[op.bucket[i] * op.H + h] += op.dbias[h * op.count + i];
    }
  });
}

#define TROUPE_DEFINE(T)                                              \
  template void run(const relative_bias_forward<T>&, const context&); \
  template void run(const relative_bias_backward<T>&, const context&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cpu
