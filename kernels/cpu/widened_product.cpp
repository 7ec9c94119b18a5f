#include "kernels/cpu/product.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/widened_product.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void widen_range(const T* from, float* to, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR { step.store(step.load(from + i), to + i); });
}

template <class T>
void narrow_rows(const float* from, const T* bias, T* to, std::int64_t rows, std::int64_t N) {
  for (std::int64_t r = 0; r < rows; ++r, from += N, to += N)
    each(N, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec sum = step.load(from + i);
      step.store(bias ? hn::Add(sum, step.load(bias + i)) : sum, to + i);
    });
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(widen_range);
TROUPE_EXPORT(narrow_rows);

constexpr std::int64_t rows_at_once = 256;

template <class T>
void widen_all(const T* from, float* to, std::int64_t n, int threads) {
  split(threads, n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(widen_range, T)(from + begin, to + begin, end - begin);
  });
}

}  // namespace

std::size_t widened_scratch(const narrow_product& p) {
  const std::int64_t floats
      = p.to_float ? rows_at_once * (p.M + p.N) : p.K * p.N + rows_at_once * (p.K + p.N);
  return sizeof(float) * std::size_t(floats);
}

// Rows of a at a time.
template <class T>
void widened_multiply(
    const narrow_product& p, const T* a, const T* b, const T* bias, T* c, const context& in) {
  if (p.a_transposed)
    throw std::logic_error(
        "a narrow product with its first operand transposed is one of sums in float");
  float* const b_wide = scratch_array<float>(in, widened_scratch(p));
  float* const a_wide = b_wide + p.K * p.N;
  float* const c_wide = a_wide + rows_at_once * p.K;
  widen_all(b, b_wide, p.K * p.N, in.threads);
  const matrix weight{b_wide, p.b_transposed ? p.K : p.N, p.b_transposed};
  for (std::int64_t r = 0; r < p.M; r += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, p.M - r);
    widen_all(a + r * p.K, a_wide, rows * p.K, in.threads);
    multiply({a_wide, p.K}, weight, c_wide, rows, p.N, p.K, 0, in.threads);
    split(in.threads, rows, rows_worth_a_thread(p.N), [&](std::int64_t begin, std::int64_t end) {
      TROUPE_DISPATCH(narrow_rows, T)
      (c_wide + begin * p.N, bias, c + (r + begin) * p.N, end - begin, p.N);
    });
  }
}

// Both operands lie with the summed dimension in rows: some rows of the sum at a time.
template <class T>
void widened_multiply(
    const narrow_product& p, const T* a, const T* b, float* c, const context& in) {
  if (!p.a_transposed || p.b_transposed)
    throw std::logic_error("a narrow product has sums in float over rows only");
  float* const a_wide = scratch_array<float>(in, widened_scratch(p));
  float* const b_wide = a_wide + rows_at_once * p.M;
  for (std::int64_t k = 0; k < p.K; k += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, p.K - k);
    widen_all(a + k * p.M, a_wide, rows * p.M, in.threads);
    widen_all(b + k * p.N, b_wide, rows * p.N, in.threads);
    const float beta = k > 0 || p.accumulated ? 1 : 0;
    multiply({a_wide, p.M, true}, {b_wide, p.N}, c, p.M, p.N, rows, beta, in.threads);
  }
}

#define TROUPE_INSTANTIATE(T)                                                   \
  template void widened_multiply(                                               \
      const narrow_product&, const T*, const T*, const T*, T*, const context&); \
  template void widened_multiply(const narrow_product&, const T*, const T*, float*, const context&);
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
#endif
