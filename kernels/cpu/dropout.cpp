#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <hwy/cache_control.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/philox-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <bool Residual>
HWY_INLINE void scale_kept(const float* x,
                           const float* residual,
                           float* y,
                           const std::uint32_t* words,
                           std::int64_t n,
                           float p) {
  const hn::RebindToUnsigned<tag> du;
  const vec scale = hn::Set(d, float(1 / (1 - double(p))));
  const auto threshold = hn::Set(du, drop_threshold(p));
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    const auto dropped = hn::RebindMask(d, hn::Lt(hn::LoadU(du, words + i), threshold));
    const vec value = hn::IfThenZeroElse(dropped, step.load(x + i));
    if constexpr (Residual)
      step.store(hn::MulAdd(value, scale, step.load(residual + i)), y + i);
    else
      step.store(hn::Mul(value, scale), y + i);
  });
}

// A sequence is one stretch of memory and one stretch of words, whatever its rows: word number and
// element number are the same. Words are made a chunk ahead, in the first cache.
void dropout_range(const dropout_forward<float>& op, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t chunk = 512;
  // Beyond a chunk: up to 3 words before the first, and whole vectors read or written at the end.
  alignas(64) std::uint32_t words[chunk + 64];
  const std::int64_t sequence = op.T_ * op.C;
  while (begin < end) {
    const std::int64_t s = begin / sequence, first = begin % sequence, before = first % 4;
    const std::int64_t n = std::min({chunk, sequence - first, end - begin});
    // Memory works while the words are made.
    for (std::int64_t i = 0; i < n; i += 16) {
      hwy::Prefetch(op.x + begin + i);
      if (op.residual)
        hwy::Prefetch(op.residual + begin + i);
      __builtin_prefetch(op.y + begin + i, 1);
    }
    philox_words(words, before + n, op.key, op.sample[s], std::uint64_t(first / 4));
    if (op.residual)
      scale_kept<true>(op.x + begin, op.residual + begin, op.y + begin, words + before, n, op.p);
    else
      scale_kept<false>(op.x + begin, nullptr, op.y + begin, words + before, n, op.p);
    begin += n;
  }
}

// p = 0 has no words: no streams need be given.
void kept_range(const dropout_forward<float>& op, std::int64_t begin, std::int64_t end) {
  const float *x = op.x + begin, *residual = op.residual ? op.residual + begin : nullptr;
  float* y = op.y + begin;
  if (residual)
    each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
      step.store(hn::Add(step.load(x + i), step.load(residual + i)), y + i);
    });
  else if (y != x)
    each(end - begin,
         [=](std::int64_t i, auto step) HWY_ATTR { step.store(step.load(x + i), y + i); });
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(dropout_range);
HWY_EXPORT(kept_range);

template <>
void run(const dropout_forward<float>& op, const context& in) {
  split(
      in.threads, op.R * op.C, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
        if (op.p > 0)
          HWY_DYNAMIC_DISPATCH(dropout_range)(op, begin, end);
        else
          HWY_DYNAMIC_DISPATCH(kept_range)(op, begin, end);
      });
}

// The same masks on dy, and nothing to add them to.
template <>
void run(const dropout_backward<float>& op, const context& in) {
  run(dropout_forward<float>{.y = op.dx,
                             .x = op.dy,
                             .residual = nullptr,
                             .R = op.R,
                             .C = op.C,
                             .T_ = op.T_,
                             .p = op.p,
                             .key = op.key,
                             .sample = op.sample},
      in);
}

}  // namespace troupe::kernels::cpu
#endif
