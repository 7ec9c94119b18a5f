#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/heads.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void sum_rows(const sum_heads<T>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const from = op.from + r * op.from_row;
    T* const to = op.to + r * op.to_row;
    each(op.width, [=](std::int64_t i, auto step) HWY_ATTR {
      vec sum = hn::Zero(d);
      for (std::int64_t g = 0; g < op.G; ++g)
        sum = hn::Add(sum, step.load(from + g * op.from_group + i));
      step.store(sum, to + i);
    });
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(sum_rows);

template <class T>
void run(const copy_heads<T>& op, const context& in) {
  const std::int64_t grain = rows_worth_a_thread(op.G * op.width);
  split(in.threads, op.R, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t g = 0; g < op.G; ++g)
        std::memcpy(op.to + r * op.to_row + g * op.to_group,
                    op.from + r * op.from_row + g * op.from_group,
                    std::size_t(op.width) * sizeof(T));
  });
}

template <class T>
void run(const sum_heads<T>& op, const context& in) {
  const std::int64_t grain = rows_worth_a_thread(op.G * op.width);
  split(in.threads, op.R, grain, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(sum_rows, T)(op, begin, end);
  });
}

template void run(const copy_heads<float>&, const context&);
template void run(const copy_heads<bf16>&, const context&);
template void run(const copy_heads<f16>&, const context&);
template void run(const sum_heads<float>&, const context&);
template void run(const sum_heads<bf16>&, const context&);
template void run(const sum_heads<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
