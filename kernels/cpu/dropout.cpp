#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <hwy/cache_control.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/philox-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// A run of consecutive elements. Null pointers: absent arrays.
template <class T>
struct stretch {
  T* y;
  const T* x;
  const T* residual;
  const T* bias;
  std::int64_t n;
};

/// Up to `n` elements from `begin`; with a bias, they end at the end of their row.
template <class T>
HWY_INLINE stretch<T> stretch_at(const dropout_forward<T>& op, std::int64_t begin, std::int64_t n) {
  const std::int64_t column = op.bias ? begin % op.C : 0;
  return {.y = op.y + begin,
          .x = op.x + begin,
          .residual = op.residual ? op.residual + begin : nullptr,
          .bias = op.bias ? op.bias + column : nullptr,
          .n = op.bias ? std::min(n, op.C - column) : n};
}

template <bool Residual, bool Bias, class T>
HWY_INLINE void scale_kept(const stretch<T>& at,
                           const std::uint32_t* words,
                           float p,
                           float factor) {
  const hn::RebindToUnsigned<tag> du;
  const vec scale = hn::Set(d, float(double(factor) / (1 - double(p))));
  const auto threshold = hn::Set(du, drop_threshold(p));
  const T *x = at.x, *residual = at.residual, *bias = at.bias;
  T* y = at.y;
  each(at.n, [=](std::int64_t i, auto step) HWY_ATTR {
    const auto dropped = hn::RebindMask(d, hn::Lt(hn::LoadU(du, words + i), threshold));
    vec value = step.load(x + i);
    if constexpr (Bias)
      value = hn::Add(value, step.load(bias + i));
    value = hn::IfThenZeroElse(dropped, value);
    if constexpr (Residual)
      step.store(hn::MulAdd(value, scale, step.load(residual + i)), y + i);
    else
      step.store(hn::Mul(value, scale), y + i);
  });
}

template <class T>
HWY_INLINE void scale_kept(const stretch<T>& at,
                           const std::uint32_t* words,
                           float p,
                           float factor) {
  if (at.residual)
    at.bias ? scale_kept<true, true>(at, words, p, factor)
            : scale_kept<true, false>(at, words, p, factor);
  else
    at.bias ? scale_kept<false, true>(at, words, p, factor)
            : scale_kept<false, false>(at, words, p, factor);
}

// Within a sequence, element number and word number are equal, so rows do not matter. Random words
// are made one chunk ahead, in the L1 cache.
template <class T>
void dropout_range(const dropout_forward<T>& op, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t chunk = 512;
  constexpr std::int64_t line = 64 / sizeof(T);
  // Room for up to 3 words before the first, and for whole vectors beyond the last.
  alignas(64) std::uint32_t words[chunk + 64];
  const std::int64_t sequence = op.T_ * op.C;
  while (begin < end) {
    const std::int64_t here = op.first_row * op.C + begin;
    const std::int64_t s = here / sequence, first = here % sequence, before = first % 4;
    const auto at = stretch_at(op, begin, std::min({chunk, sequence - first, end - begin}));
    // Overlaps memory access with the generation of random words.
    for (std::int64_t i = 0; i < at.n; i += line) {
      hwy::Prefetch(at.x + i);
      if (at.residual)
        hwy::Prefetch(at.residual + i);
      __builtin_prefetch(at.y + i, 1);
    }
    philox_words(words, before + at.n, op.key, op.sample[s], std::uint64_t(first / 4));
    scale_kept(at, words + before, op.p, op.scale);
    begin += at.n;
  }
}

// Handles p = 0 without random words, so `sample` may be null.
template <class T>
void kept_range(const dropout_forward<T>& op, std::int64_t begin, std::int64_t end) {
  while (begin < end) {
    const auto at = stretch_at(op, begin, end - begin);
    const T *x = at.x, *residual = at.residual, *bias = at.bias;
    T* y = at.y;
    if (op.scale != 1) {
      const vec scale = hn::Set(d, op.scale);
      each(at.n, [=](std::int64_t i, auto step) HWY_ATTR {
        const vec value = bias ? hn::Add(step.load(x + i), step.load(bias + i)) : step.load(x + i);
        step.store(
            residual ? hn::MulAdd(value, scale, step.load(residual + i)) : hn::Mul(value, scale),
            y + i);
      });
    } else if (bias)
      each(at.n, [=](std::int64_t i, auto step) HWY_ATTR {
        const vec value = hn::Add(step.load(x + i), step.load(bias + i));
        step.store(residual ? hn::Add(value, step.load(residual + i)) : value, y + i);
      });
    else if (residual)
      each(at.n, [=](std::int64_t i, auto step) HWY_ATTR {
        step.store(hn::Add(step.load(x + i), step.load(residual + i)), y + i);
      });
    else if (y != x)
      std::copy_n(x, at.n, y);
    begin += at.n;
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(dropout_range);
TROUPE_EXPORT(kept_range);

template <class T>
void run(const dropout_forward<T>& op, const context& in) {
  split(
      in.threads, op.R * op.C, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
        if (op.p > 0)
          TROUPE_DISPATCH(dropout_range, T)(op, begin, end);
        else
          TROUPE_DISPATCH(kept_range, T)(op, begin, end);
      });
}

// The forward pass on dy gives the same masks.
template <class T>
void run(const dropout_backward<T>& op, const context& in) {
  run(dropout_forward<T>{.y = op.dx,
                         .x = op.dy,
                         .residual = nullptr,
                         .R = op.R,
                         .C = op.C,
                         .T_ = op.T_,
                         .p = op.p,
                         .key = op.key,
                         .sample = op.sample,
                         .first_row = op.first_row,
                         .scale = op.scale},
      in);
}

template void run(const dropout_forward<float>&, const context&);
template void run(const dropout_forward<bf16>&, const context&);
template void run(const dropout_forward<f16>&, const context&);
template void run(const dropout_backward<float>&, const context&);
template void run(const dropout_backward<bf16>&, const context&);
template void run(const dropout_backward<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
