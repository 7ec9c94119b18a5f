#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/few_rows.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"

#include <hwy/cache_control.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Computes columns [n, n + Columns) of all rows. The sum of an element runs over K by vectors, in
/// order, independent of Rows and Columns.
template <class T, int Rows, int Columns>
HWY_INLINE void few_columns(const few_rows_product<T>& p, std::int64_t n) {
  vec sum[Rows][Columns];
  for (auto& row : sum)
    for (auto& one : row)
      one = hn::Zero(d);
  const float* const x = p.x;
  const T* const weight = p.weight + n * p.K;
  const std::int64_t K = p.K;
  each(K, [&sum, x, weight, K](std::int64_t k, auto step) HWY_ATTR {
    vec w[Columns];
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) {
      // The hardware prefetcher would request these rows too late.
      hwy::Prefetch(weight + (2 * Columns + c) * K + k);
      w[c] = step.load(weight + c * K + k);
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const vec one = step.load(x + r * K + k);
#pragma GCC unroll 4
      for (int c = 0; c < Columns; ++c)
        sum[r][c] = hn::MulAdd(one, w[c], sum[r][c]);
    }
  });
  for (int c = 0; c < Columns; ++c) {
    const float bias = p.bias ? float(p.bias[n + c]) : 0;
    for (int r = 0; r < Rows; ++r)
      p.y[r * p.N + n + c] = T(hn::GetLane(hn::SumOfLanes(d, sum[r][c])) + bias);
  }
}

template <class T, int Rows>
HWY_NOINLINE void few_range(const few_rows_product<T>& p, std::int64_t begin, std::int64_t end) {
  // Eight sums hide the latency of a multiplication. AVX-512 has registers for sixteen sums, the
  // other instruction sets for eight.
  constexpr int columns = Rows <= 2 ? 4 : width >= 16 ? (Rows <= 4 ? 4 : 2) : Rows <= 4 ? 2 : 1;
  std::int64_t n = begin;
  for (; n + columns <= end; n += columns)
    few_columns<T, Rows, columns>(p, n);
  for (; n < end; ++n)
    few_columns<T, Rows, 1>(p, n);
}

template <class T>
void few_rows_block(const few_rows_product<T>& p, std::int64_t begin, std::int64_t end) {
  static_assert(most_few_rows == 8);
  switch (p.R) {
    case 1:
      return few_range<T, 1>(p, begin, end);
    case 2:
      return few_range<T, 2>(p, begin, end);
    case 3:
      return few_range<T, 3>(p, begin, end);
    case 4:
      return few_range<T, 4>(p, begin, end);
    case 5:
      return few_range<T, 5>(p, begin, end);
    case 6:
      return few_range<T, 6>(p, begin, end);
    case 7:
      return few_range<T, 7>(p, begin, end);
    default:
      return few_range<T, 8>(p, begin, end);
  }
}

template <class T>
void few_rows_range(const few_rows_product<T>& p, std::int64_t begin, std::int64_t end) {
  if (p.R <= most_few_rows)
    return few_rows_block(p, begin, end);
  // Half of an L2 cache of 512 KB holds the weights of these columns.
  const std::int64_t columns = std::max<std::int64_t>(
      4, (std::int64_t{1} << 18) / (p.K * std::int64_t{sizeof(T)}) / 4 * 4);
  for (std::int64_t n = begin; n < end; n += columns)
    for (std::int64_t r = 0; r < p.R; r += most_few_rows) {
      few_rows_product<T> rows = p;
      rows.x += r * p.K;
      rows.y += r * p.N;
      rows.R = std::min(most_few_rows, p.R - r);
      few_rows_block(rows, n, std::min(end, n + columns));
    }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(few_rows_range);

}  // namespace

template <class T>
void multiply_few_rows(const linear_forward<T>& op, T* z, const context& in) {
  few_rows_product<T> p{z, nullptr, op.weight, op.bias, op.R, op.N, op.K};
  if constexpr (std::is_same_v<T, float>) {
    p.x = op.x;
  } else {
    auto* const x = scratch_array<float>(in, few_rows_scratch<T>(op.R, op.K));
    run(widen<T>{x, op.x, op.R * op.K}, context{});
    p.x = x;
  }
  split(in.threads, op.N, rows_worth_a_thread(op.K), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(few_rows_range, T)(p, begin, end);
  });
}

template void multiply_few_rows(const linear_forward<float>&, float*, const context&);
template void multiply_few_rows(const linear_forward<bf16>&, bf16*, const context&);
template void multiply_few_rows(const linear_forward<f16>&, f16*, const context&);

}  // namespace troupe::kernels::cpu
#endif
