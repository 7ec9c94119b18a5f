#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/grains.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/fingerprint-inl.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

// T: of the rounded weights. The vectors are captured by value: the compiler cannot know that x
// does not alias op.
template <class T>
void adamw_range(const adamw<float>& op, std::int64_t begin, std::int64_t end) {
  float *x = op.x + begin, *m = op.m + begin, *v = op.v + begin;
  const float* dx = op.dx + begin;
  T* rounded = op.rounded ? static_cast<T*>(op.rounded) + begin : nullptr;
  const vec gradient_scale = hn::Set(d, op.gradient_scale);
  const vec beta1 = hn::Set(d, op.beta1), beta2 = hn::Set(d, op.beta2);
  const vec rest1 = hn::Set(d, 1 - op.beta1), rest2 = hn::Set(d, 1 - op.beta2);
  const vec eps = hn::Set(d, op.eps);
  const vec decay = hn::Set(d, op.rate * op.weight_decay);
  const vec step1 = hn::Set(d, op.rate / op.correction1);
  const vec inverse2 = hn::Set(d, 1 / op.correction2);

  each(end - begin, [=](std::int64_t i, auto step) HWY_ATTR {
    const vec g = hn::Mul(step.load(dx + i), gradient_scale);
    const vec m1 = hn::MulAdd(beta1, step.load(m + i), hn::Mul(rest1, g));
    const vec v1 = hn::MulAdd(beta2, step.load(v + i), hn::Mul(rest2, hn::Mul(g, g)));
    const vec x0 = step.load(x + i);
    const vec root = hn::Add(hn::Sqrt(hn::Mul(v1, inverse2)), eps);
    const vec change = hn::MulAdd(decay, x0, hn::Div(hn::Mul(step1, m1), root));
    step.store(m1, m + i);
    step.store(v1, v + i);
    const vec x1 = hn::Sub(x0, change);
    step.store(x1, x + i);
    if (rounded)
      step.store(x1, rounded + i);
  });
}

/// A grain, block by block: fingerprints are taken of what is still in the first cache. sums[a][j]
/// of array a: x, m, v.
template <class T>
void adamw_grain(const adamw<float>& op,
                 const grain_of_piece& at,
                 const std::uint64_t* const (&keys)[3],
                 std::uint64_t (&sums)[3][2]) {
  constexpr std::int64_t block = 1024;
  for (std::int64_t i = 0; i < at.n; i += block) {
    const auto begin = at.begin + i, n = std::min(block, at.n - i);
    adamw_range<T>(op, begin, begin + n);
    const float* const arrays[] = {op.x, op.m, op.v};
    for (int a = 0; a < 3; ++a)
      add_fingerprint(arrays[a] + begin, i, n, keys[a][at.number], sums[a]);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(adamw_range);
TROUPE_EXPORT(adamw_grain);

template <class T>
void run(const adamw<T>& op, const context& in) {
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    if (op.rounded_to == narrow_type::f16)
      TROUPE_DISPATCH(adamw_range, f16)(op, begin, end);
    else
      TROUPE_DISPATCH(adamw_range, bf16)(op, begin, end);
  });
}

template <class T>
void run(const adamw_pieces<T>& op, const context& in) {
  if (!op.fingerprints) {
    for (std::int64_t i = 0; i < op.count; ++i)
      run(piece_of(op, i), in);
    return;
  }
  fingerprint_results results(op.fingerprints, 3 * op.count);
  split_grains(in.threads, op, [&](const grain_of_piece& at) {
    const auto& piece = op.pieces[at.piece];
    const auto grains = grains_in(piece.n, op.grain);
    const std::uint64_t* const keys[] = {piece.keys, piece.keys + grains, piece.keys + 2 * grains};
    std::uint64_t sums[3][2] = {};
    if (op.rounded_to == narrow_type::f16)
      TROUPE_DISPATCH(adamw_grain, f16)(piece_of(op, at.piece), at, keys, sums);
    else
      TROUPE_DISPATCH(adamw_grain, bf16)(piece_of(op, at.piece), at, keys, sums);
    for (int a = 0; a < 3; ++a)
      results.add(3 * at.piece + a, sums[a]);
  });
}

template void run(const adamw<float>&, const context&);
template void run(const adamw_pieces<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
