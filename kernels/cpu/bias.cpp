#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bias.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// Sums 128 rows at a time, because one running sum over all rows would lose small terms. If
// `written`, `total` is overwritten without being read.
template <int Vectors, class T, class Step>
HWY_INLINE void sum_column_vectors(
    const T* x, std::int64_t R, std::int64_t N, float* total, bool written, Step step) {
  constexpr std::int64_t chunk = 128;
  for (std::int64_t begin = 0; begin < R; begin += chunk) {
    vec part[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      part[v] = hn::Zero(d);
    for (std::int64_t r = begin; r < std::min(R, begin + chunk); ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        part[v] = hn::Add(part[v], step.load(x + r * N + v * width));
    }
    const bool from_zero = written && begin == 0;
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const vec before = from_zero ? hn::Zero(d) : step.load(total + v * width);
      step.store(hn::Add(before, part[v]), total + v * width);
    }
  }
}

template <class T>
void sum_columns(const bias_backward<T>& op, std::int64_t begin, std::int64_t end) {
  const bool written = !op.accumulates;
  std::int64_t c = begin;
  for (; c + 4 * width <= end; c += 4 * width)
    sum_column_vectors<4>(op.dz + c, op.R, op.N, op.dbias + c, written, whole{});
  for (; c + width <= end; c += width)
    sum_column_vectors<1>(op.dz + c, op.R, op.N, op.dbias + c, written, whole{});
  if (c < end)
    sum_column_vectors<1>(
        op.dz + c, op.R, op.N, op.dbias + c, written, partial{hn::FirstN(d, std::size_t(end - c))});
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(sum_columns);

template <class T>
void run(const bias_backward<T>& op, const context& in) {
  if (op.R == 0 && !op.accumulates)
    return void(std::fill_n(op.dbias, op.N, 0));
  split(in.threads, op.N, 64, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(sum_columns, T)(op, begin, end);
  });
}

template void run(const bias_backward<float>&, const context&);
template void run(const bias_backward<bf16>&, const context&);
template void run(const bias_backward<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
