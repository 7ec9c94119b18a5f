#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <cmath>
#include <hwy/cache_control.h>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// log sum_i exp(x[i]). The row passes through the first cache in chunks, read from memory once:
// within a chunk a maximum, then a sum of floats; across chunks a double, rescaled when the maximum
// grows. Milakov, Gimelshein: "Online normalizer calculation for softmax", 2018.
double log_sum_exp(const float* x, std::int64_t n) {
  constexpr std::int64_t chunk = 1024;
  float highest = -std::numeric_limits<float>::infinity();
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += chunk) {
    const std::int64_t size = std::min(chunk, n - begin);
    const float* from = x + begin;
    const float here = largest(from, size);
    if (here > highest) {
      if (total > 0)
        total *= std::exp(double(highest) - double(here));
      highest = here;
    }
    // A chunk of nothing but -infinity adds nothing; its differences would not be numbers.
    if (here == -std::numeric_limits<float>::infinity())
      continue;
    const vec top = hn::Set(d, highest);
    total += double(sum(size, [=](std::int64_t i, auto step) HWY_ATTR {
      hwy::Prefetch(from + i + chunk);  // memory works while this chunk is computed
      return exp(hn::Sub(step.load(from + i), top));
    }));
  }
  return double(highest) + std::log(total);
}

void cross_entropy_rows(const cross_entropy_forward<float>& op,
                        std::int64_t begin,
                        std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* logits = op.logits + r * op.V;
    const double lse = log_sum_exp(logits, op.vocabulary);
    // Before lse is rounded: where the model is sure, the loss is a small difference.
    op.loss[r] = float(lse - double(logits[op.target[r]]));
    if (op.lse)
      op.lse[r] = float(lse);
  }
}

HWY_INLINE void fill_zero(float* y, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR { step.store(hn::Zero(d), y + i); });
}

void cross_entropy_gradient_rows(const cross_entropy_backward<float>& op,
                                 std::int64_t begin,
                                 std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* logits = op.logits + r * op.V;
    float* dlogits = op.dlogits + r * op.V;
    if (op.dloss[r] == 0) {
      fill_zero(dlogits, op.V);
      continue;
    }
    // First, because dlogits may be logits. p - 1 from expm1, for it is small where p is near 1.
    const float at_target
        = float(std::expm1(double(logits[op.target[r]]) - double(op.lse[r])) * double(op.dloss[r]));
    const vec lse = hn::Set(d, op.lse[r]), dloss = hn::Set(d, op.dloss[r]);
    each(op.vocabulary, [=](std::int64_t i, auto step) HWY_ATTR {
      step.store(hn::Mul(exp(hn::Sub(step.load(logits + i), lse)), dloss), dlogits + i);
    });
    dlogits[op.target[r]] = at_target;
    fill_zero(dlogits + op.vocabulary, op.V - op.vocabulary);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(cross_entropy_gradient_rows);

void run(const cross_entropy_forward<float>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.V), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(op, begin, end);
  });
}

void run(const cross_entropy_backward<float>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.V), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_gradient_rows)(op, begin, end);
  });
}

}  // namespace troupe::kernels::cpu
#endif
