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

template <class Function, class T>
HWY_INLINE void pointwise_forward(const T* x, T* y, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    step.store(Function::value(step.load(x + i)), y + i);
  });
}

template <class Function, class T>
HWY_INLINE void pointwise_backward(const T* x, const T* dy, T* dx, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    step.store(hn::Mul(step.load(dy + i), Function::slope(step.load(x + i))), dx + i);
  });
}

// A swiglu row is two short streams. The hardware prefetcher loses track at each row end, so both
// directions prefetch the same place of the next row.
template <class T>
HWY_INLINE void swiglu_forward(const T* gate, const T* linear, T* y, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    hwy::Prefetch(gate + i + 2 * n);
    hwy::Prefetch(linear + i + 2 * n);
    const vec g = step.load(gate + i);
    step.store(hn::Mul(hn::Mul(g, sigmoid(g)), step.load(linear + i)), y + i);
  });
}

template <class T>
HWY_INLINE void swiglu_backward(const T* x, const T* dy, T* dx, std::int64_t N) {
  each(N, [=](std::int64_t i, auto step) HWY_ATTR {
    hwy::Prefetch(x + i + 2 * N);
    hwy::Prefetch(x + i + 3 * N);
    const vec g = step.load(x + i), linear = step.load(x + N + i), up = step.load(dy + i);
    vec rest;
    const vec s = sigmoid(g, rest);
    const vec silu = hn::Mul(g, s);
    const vec slope = hn::MulAdd(silu, rest, s);
    step.store(hn::Mul(hn::Mul(up, linear), slope), dx + i);
    step.store(hn::Mul(up, silu), dx + N + i);
  });
}

// All activations but swiglu are elementwise, so for them [begin, end) counts elements, not rows.
template <class T>
void activation_forward_range(const activation_forward<T>& op,
                              std::int64_t begin,
                              std::int64_t end) {
  if (op.kind == activation::swiglu) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* x = op.x + 2 * r * op.N;
      swiglu_forward(x, x + op.N, op.y + r * op.N, op.N);
    }
    return;
  }
  with_functions_of(op.kind, [&](auto functions) HWY_ATTR {
    pointwise_forward<decltype(functions)>(op.x + begin, op.y + begin, end - begin);
  });
}

template <class T>
void activation_backward_range(const activation_backward<T>& op,
                               std::int64_t begin,
                               std::int64_t end) {
  if (op.kind == activation::swiglu) {
    for (std::int64_t r = begin; r < end; ++r)
      swiglu_backward(op.x + 2 * r * op.N, op.dy + r * op.N, op.dx + 2 * r * op.N, op.N);
    return;
  }
  with_functions_of(op.kind, [&](auto functions) HWY_ATTR {
    pointwise_backward<decltype(functions)>(
        op.x + begin, op.dy + begin, op.dx + begin, end - begin);
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
  if (op.kind == activation::swiglu)
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
