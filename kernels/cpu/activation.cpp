#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <hwy/cache_control.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/activation-inl.hpp"
#include "kernels/cpu/dispatch.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// N elements, multiplied by `weight`. A gated row is two short streams. The hardware prefetcher
/// loses track at each row end, so both directions prefetch the same place of the next row.
template <class Function, class T>
void forward_row(const T* x, float weight, T* y, std::int64_t N, bool gated) {
  const vec factor = hn::Set(d, weight);
  each(N, [=](std::int64_t i, auto step) HWY_ATTR {
    vec value = hn::Mul(factor, Function::value(step.load(x + i)));
    if (gated) {
      hwy::Prefetch(x + i + 2 * N);
      hwy::Prefetch(x + i + 3 * N);
      value = hn::Mul(value, step.load(x + N + i));
    }
    step.store(value, y + i);
  });
}

/// Returns the gradient of the weight if it is `weighted`.
template <class Function, class T>
float backward_row(
    const T* x, const T* dy, float weight, T* dx, std::int64_t N, bool gated, bool weighted) {
  const vec factor = hn::Set(d, weight);
  vec total = hn::Zero(d);
  each(N, [=, &total](std::int64_t i, auto step) HWY_ATTR {
    const vec at = step.load(x + i), value = Function::value(at), slope = Function::slope(at);
    vec up = step.load(dy + i), of_weight = hn::Mul(up, value);
    up = hn::Mul(factor, up);
    if (gated) {
      hwy::Prefetch(x + i + 2 * N);
      hwy::Prefetch(x + i + 3 * N);
      const vec linear = step.load(x + N + i);
      of_weight = hn::Mul(of_weight, linear);
      step.store(hn::Mul(up, value), dx + N + i);
      up = hn::Mul(up, linear);
    }
    step.store(hn::Mul(up, slope), dx + i);
    if (weighted)
      total = hn::Add(total, step.or_zero(of_weight));
  });
  return weighted ? hn::GetLane(hn::SumOfLanes(d, total)) : 0;
}

/// True if rows do not matter: a range then counts elements.
template <class Op>
bool is_flat(const Op& op) {
  return !op.gated && !op.weight;
}

template <class T>
void activation_forward_range(const activation_forward<T>& op,
                              std::int64_t begin,
                              std::int64_t end) {
  with_functions_of(op.kind, [&](auto functions) HWY_ATTR {
    using function = decltype(functions);
    const bool flat = is_flat(op);
    const std::int64_t N = flat ? 1 : op.N, at_once = flat ? end - begin : 1;
    for (std::int64_t r = begin; r < end; r += at_once)
      forward_row<function>(op.x + r * N * fan_in(op.gated),
                            op.weight ? op.weight[r] : 1,
                            op.y + r * N,
                            N * at_once,
                            op.gated);
  });
}

template <class T>
void activation_backward_range(const activation_backward<T>& op,
                               std::int64_t begin,
                               std::int64_t end) {
  with_functions_of(op.kind, [&](auto functions) HWY_ATTR {
    using function = decltype(functions);
    const bool flat = is_flat(op);
    const std::int64_t N = flat ? 1 : op.N, at_once = flat ? end - begin : 1;
    for (std::int64_t r = begin; r < end; r += at_once) {
      const float dweight = backward_row<function>(op.x + r * N * fan_in(op.gated),
                                                   op.dy + r * N,
                                                   op.weight ? op.weight[r] : 1,
                                                   op.dx + r * N * fan_in(op.gated),
                                                   N * at_once,
                                                   op.gated,
                                                   op.dweight != nullptr);
      if (op.dweight)
        op.dweight[r] = dweight;
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(activation_forward_range);
TROUPE_EXPORT(activation_backward_range);

template <class Op, class Range>
void split_activation(const Op& op, int threads, const Range& range) {
  if (op.gated || op.weight)
    split(threads, op.R, rows_worth_a_thread(op.N), range);
  else
    split(threads, op.R * op.N, elements_worth_a_thread, range);
}

}  // namespace

template <class T>
void run(const activation_forward<T>& op, const context& in) {
  split_activation(op, in.threads, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(activation_forward_range, T)(op, begin, end);
  });
}

template <class T>
void run(const activation_backward<T>& op, const context& in) {
  split_activation(op, in.threads, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(activation_backward_range, T)(op, begin, end);
  });
}

template void run(const activation_forward<float>&, const context&);
template void run(const activation_forward<bf16>&, const context&);
template void run(const activation_forward<f16>&, const context&);
template void run(const activation_backward<float>&, const context&);
template void run(const activation_backward<bf16>&, const context&);
template void run(const activation_backward<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
