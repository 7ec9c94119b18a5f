#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/grains.hpp"
#include "kernels/cpu/targets.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/momentum.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/fingerprint-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// T is the type of the rounded weights.
template <class T>
void sgd_range(const momentum_step<float>& op, std::int64_t begin, std::int64_t end) {
  float *x = op.x + begin, *m = op.m + begin;
  const float* dx = op.dx + begin;
  T* rounded = op.rounded ? static_cast<T*>(op.rounded) + begin : nullptr;
  const vec gradient_scale = hn::Set(d, op.gradient_scale), beta1 = hn::Set(d, op.beta1);
  const vec decay = hn::Set(d, op.weight_decay), rate = hn::Set(d, op.rate);
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    const vec x0 = step.load(x + i);
    const vec g = hn::MulAdd(decay, x0, hn::Mul(step.load(dx + i), gradient_scale));
    const vec m1 = hn::MulAdd(beta1, step.load(m + i), g);
    const vec x1 = hn::NegMulAdd(rate, m1, x0);
    step.store(m1, m + i);
    step.store(x1, x + i);
    if (rounded)
      step.store(x1, rounded + i);
  });
}

template <class T>
void lion_range(const momentum_step<float>& op, std::int64_t begin, std::int64_t end) {
  float *x = op.x + begin, *m = op.m + begin;
  const float* dx = op.dx + begin;
  T* rounded = op.rounded ? static_cast<T*>(op.rounded) + begin : nullptr;
  const vec gradient_scale = hn::Set(d, op.gradient_scale);
  const vec beta1 = hn::Set(d, op.beta1), rest1 = hn::Set(d, 1 - op.beta1);
  const vec beta2 = hn::Set(d, op.beta2), rest2 = hn::Set(d, 1 - op.beta2);
  const vec decay = hn::Set(d, op.weight_decay), rate = hn::Set(d, op.rate);
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    const vec x0 = step.load(x + i), m0 = step.load(m + i);
    const vec g = hn::Mul(step.load(dx + i), gradient_scale);
    const vec c = hn::MulAdd(beta1, m0, hn::Mul(rest1, g));
    const vec sign = hn::IfThenZeroElse(hn::Eq(c, hn::Zero(d)), hn::CopySign(hn::Set(d, 1.0F), c));
    const vec x1 = hn::NegMulAdd(rate, hn::MulAdd(decay, x0, sign), x0);
    step.store(hn::MulAdd(beta2, m0, hn::Mul(rest2, g)), m + i);
    step.store(x1, x + i);
    if (rounded)
      step.store(x1, rounded + i);
  });
}

void scaled_sum_range(const scaled_sum<float>& op,
                      float factor,
                      std::int64_t begin,
                      std::int64_t end) {
  float* y = op.y + begin;
  const float* x = op.x + begin;
  const float* z = op.z ? op.z + begin : nullptr;
  const vec a = hn::Set(d, factor), b = hn::Set(d, op.b);
  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    const vec scaled = hn::Mul(a, step.load(x + i));
    step.store(z ? hn::MulAdd(b, step.load(z + i), scaled) : scaled, y + i);
  });
}

/// Elements per block when fingerprints are computed: a block stays in the L1 cache.
constexpr std::int64_t momentum_block = 1024;

/// Updates the grain that begins at `begin` and adds the fingerprints of x and m to `sums`.
template <class T>
void momentum_grain(const momentum_step<float>& op,
                    std::int64_t begin,
                    std::int64_t end,
                    const std::uint64_t (&keys)[2],
                    std::uint64_t (*sums)[2]) {
  for (std::int64_t at = begin; at < end; at += momentum_block) {
    const auto stop = std::min(at + momentum_block, end);
    if (op.rule == momentum_rule::sgd)
      sgd_range<T>(op, at, stop);
    else
      lion_range<T>(op, at, stop);
    add_fingerprint(op.x + at, at - begin, stop - at, keys[0], sums[0]);
    add_fingerprint(op.m + at, at - begin, stop - at, keys[1], sums[1]);
  }
}

void scaled_sum_grain(const scaled_sum<float>& op,
                      float factor,
                      std::int64_t begin,
                      std::int64_t end,
                      std::uint64_t key,
                      std::uint64_t (&sums)[2]) {
  for (std::int64_t at = begin; at < end; at += momentum_block) {
    const auto stop = std::min(at + momentum_block, end);
    scaled_sum_range(op, factor, at, stop);
    add_fingerprint(op.y + at, at - begin, stop - at, key, sums);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(sgd_range);
TROUPE_EXPORT(lion_range);
TROUPE_EXPORT(momentum_grain);
HWY_EXPORT(scaled_sum_range);
HWY_EXPORT(scaled_sum_grain);

namespace {

/// One array divided into grains.
struct array_in_grains {
  struct piece {
    std::int64_t n;
  };
  const piece* pieces;
  std::int64_t count, grain;
};

}  // namespace

template <class T>
void run(const momentum_step<T>& op, const context& in) {
  const bool sgd = op.rule == momentum_rule::sgd, to_f16 = op.rounded_to == narrow_type::f16;
  if (const auto& wanted = op.fingerprints; wanted.results) {
    fingerprint_results results(wanted.results, 2);
    const array_in_grains::piece all{op.n};
    split_grains(in.threads, array_in_grains{&all, 1, wanted.grain}, [&](const grain_of_piece& at) {
      const auto* const key = wanted.keys + at.number;
      const std::uint64_t keys[] = {*key, key[grains_in(op.n, wanted.grain)]};
      std::uint64_t sums[2][2] = {};
      if (to_f16)
        TROUPE_DISPATCH(momentum_grain, f16)(op, at.begin, at.begin + at.n, keys, sums);
      else
        TROUPE_DISPATCH(momentum_grain, bf16)(op, at.begin, at.begin + at.n, keys, sums);
      results.add(0, sums[0]);
      results.add(1, sums[1]);
    });
    return;
  }
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    if (sgd && to_f16)
      TROUPE_DISPATCH(sgd_range, f16)(op, begin, end);
    else if (sgd)
      TROUPE_DISPATCH(sgd_range, bf16)(op, begin, end);
    else if (to_f16)
      TROUPE_DISPATCH(lion_range, f16)(op, begin, end);
    else
      TROUPE_DISPATCH(lion_range, bf16)(op, begin, end);
  });
}

template <class T>
void run(const scaled_sum<T>& op, const context& in) {
  double square = 0;
  for (std::int64_t k = 0; k < op.count; ++k)
    square += op.squares[k];
  const auto factor = float(factor_of(op, std::sqrt(square)));
  if (const auto& wanted = op.fingerprints; wanted.results) {
    fingerprint_results results(wanted.results, 1);
    const array_in_grains::piece all{op.n};
    split_grains(in.threads, array_in_grains{&all, 1, wanted.grain}, [&](const grain_of_piece& at) {
      std::uint64_t sums[2] = {};
      HWY_DYNAMIC_DISPATCH(scaled_sum_grain)
      (op, factor, at.begin, at.begin + at.n, wanted.keys[at.number], sums);
      results.add(0, sums);
    });
    return;
  }
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(scaled_sum_range)(op, factor, begin, end);
  });
}

template void run(const momentum_step<float>&, const context&);
template void run(const scaled_sum<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
