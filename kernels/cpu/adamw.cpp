#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
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

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(adamw_range);

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
  for (std::int64_t i = 0; i < op.count; ++i)
    run(piece_of(op, i), in);
}

template void run(const adamw<float>&, const context&);
template void run(const adamw_pieces<float>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
