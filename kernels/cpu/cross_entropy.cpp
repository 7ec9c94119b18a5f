#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <algorithm>
#include <cmath>
#include <hwy/cache_control.h>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// The sum of e^(x[i] - top); `top` is the largest x so far.
///
/// Floating-point comparisons share their execution units with the products of e^x. So the lower
/// limit of exponents is an integer minimum: as integers, the bits of negative floats ascend with
/// magnitude. The limit replaces terms of 0 by 2^-126, which vanish next to the 1 of the maximum.
/// It would hide NaN; a sum of all differences, on otherwise idle units, detects it.
template <class T>
HWY_INLINE float sum_exp(const T* x, std::int64_t n, float top, std::int64_t ahead) {
  const hn::RebindToUnsigned<tag> du;
  const vec middle = hn::Set(d, top);
  const auto limit = hn::BitCast(du, hn::Set(d, lowest_exponent));
  vec all = hn::Zero(d);
  const float total = sum(n, [&](std::int64_t i, auto step) HWY_ATTR {
    hwy::Prefetch(x + i + ahead);  // overlaps memory access with this chunk's computation
    const vec away = hn::Sub(step.load(x + i), middle);
    all = hn::Add(all, step.or_zero(away));
    return exp_within(hn::BitCast(d, hn::Min(hn::BitCast(du, away), limit)));
  });
  return total + hn::GetLane(hn::SumOfLanes(d, hn::IfThenElseZero(hn::IsNaN(all), all)));
}

// log sum_i exp(x[i]). The row passes through the L1 cache in chunks, so memory is read once. Each
// chunk gives a maximum and a float sum. The total over chunks is a double that is rescaled when
// the maximum grows. Milakov, Gimelshein: "Online normalizer calculation for softmax", 2018.
template <class T>
double log_sum_exp(const T* x, std::int64_t n) {
  constexpr std::int64_t chunk = 1024;
  float highest = -std::numeric_limits<float>::infinity();
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += chunk) {
    const std::int64_t size = std::min(chunk, n - begin);
    const T* from = x + begin;
    const float here = largest(from, size);
    if (here > highest) {
      if (total > 0)
        total *= std::exp(double(highest) - double(here));
      highest = here;
    }
    // A chunk of only -infinity adds nothing; its differences would be NaN.
    if (here == -std::numeric_limits<float>::infinity())
      continue;
    total += double(sum_exp(from, size, highest, chunk));
  }
  return double(highest) + std::log(total);
}

/// Column of row r's target, or -1 if another shard has it.
template <class Op>
std::int64_t target_column(const Op& op, std::int64_t r) {
  const std::int64_t column = std::int64_t{op.target[r]} - op.first;
  return column < op.vocabulary ? std::max<std::int64_t>(column, -1) : -1;
}

template <class T>
void cross_entropy_rows(const cross_entropy_forward<T>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T* logits = op.logits + r * op.V;
    const double lse = log_sum_exp(logits, op.vocabulary);
    const std::int64_t target = target_column(op, r);
    const double logit = target < 0 ? 0 : double(logits[target]);
    // Subtracts before rounding lse: for confident predictions the loss is a small difference.
    if (op.loss)
      op.loss[r] = float(lse - logit);
    if (op.lse)
      op.lse[r] = float(lse);
    if (op.target_logit)
      op.target_logit[r] = float(logit);
  }
}

template <class T>
HWY_INLINE void fill_zero(T* y, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR { step.store(hn::Zero(d), y + i); });
}

template <class T>
void cross_entropy_gradient_rows(const cross_entropy_backward<T>& op,
                                 std::int64_t begin,
                                 std::int64_t end) {
  constexpr std::int64_t ahead
      = 4096 / sizeof(T);  // prefetch distance for dlogits aliasing logits, which slows reading
  for (std::int64_t r = begin; r < end; ++r) {
    const T* logits = op.logits + r * op.V;
    T* dlogits = op.dlogits + r * op.V;
    if (op.dloss[r] == 0) {
      fill_zero(dlogits, op.V);
      continue;
    }
    // Read before the loop, because dlogits may alias logits. expm1 keeps p - 1 accurate if p is
    // near 1.
    const std::int64_t target = target_column(op, r);
    const float at_target
        = target < 0
              ? 0
              : float(std::expm1(double(logits[target]) - double(op.lse[r])) * double(op.dloss[r]));
    const vec lse = hn::Set(d, op.lse[r]), dloss = hn::Set(d, op.dloss[r]);
    each(op.vocabulary, [=](std::int64_t i, auto step) HWY_ATTR {
      hwy::Prefetch(logits + i + ahead);
      step.store(hn::Mul(exp(hn::Sub(step.load(logits + i), lse)), dloss), dlogits + i);
    });
    if (target >= 0)
      dlogits[target] = T(at_target);
    fill_zero(dlogits + op.vocabulary, op.V - op.vocabulary);
  }
}

/// The backward pass follows while the L2 cache still holds what the forward pass read: one long
/// row of 100 to 500 KB, or many short ones. Short rows one by one would stall: a load right after
/// a partial vector store waits for that store.
template <class T>
void cross_entropy_both_rows(const cross_entropy_both_passes<T>& op,
                             std::int64_t begin,
                             std::int64_t end) {
  const auto at_once = std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, op.V));
  const auto forward = forward_of(op);
  const auto backward = backward_of(op);
  for (std::int64_t r = begin; r < end; r += at_once) {
    const auto last = std::min(end, r + at_once);
    cross_entropy_rows(forward, r, last);
    cross_entropy_gradient_rows(backward, r, last);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(cross_entropy_rows);
TROUPE_EXPORT(cross_entropy_gradient_rows);
TROUPE_EXPORT(cross_entropy_both_rows);

template <class T>
void run(const cross_entropy_forward<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.V), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(cross_entropy_rows, T)(op, begin, end);
  });
}

template <class T>
void run(const cross_entropy_backward<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.V), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(cross_entropy_gradient_rows, T)(op, begin, end);
  });
}

template <class T>
void run(const cross_entropy_both_passes<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.V), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(cross_entropy_both_rows, T)(op, begin, end);
  });
}

template void run(const cross_entropy_forward<float>&, const context&);
template void run(const cross_entropy_forward<bf16>&, const context&);
template void run(const cross_entropy_forward<f16>&, const context&);
template void run(const cross_entropy_backward<float>&, const context&);
template void run(const cross_entropy_backward<bf16>&, const context&);
template void run(const cross_entropy_backward<f16>&, const context&);
template void run(const cross_entropy_both_passes<float>&, const context&);
template void run(const cross_entropy_both_passes<bf16>&, const context&);
template void run(const cross_entropy_both_passes<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
