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

/// An activation's value and slope together; for swiglu those of the gate.
template <class Function>
struct value_and_slope {
  static HWY_INLINE void set(vec x, vec& value, vec& slope) {
    value = Function::value(x);
    slope = Function::slope(x);
  }
};
struct silu_and_slope {
  static HWY_INLINE void set(vec x, vec& value, vec& slope) {
    vec rest;
    const vec s = sigmoid(x, rest);
    value = hn::Mul(x, s);
    slope = hn::MulAdd(value, rest, s);
  }
};
template <class Use>
HWY_INLINE void with_both_of(activation kind, const Use& use) {
  if (kind == activation::swiglu)
    return use(silu_and_slope());
  with_functions_of(kind,
                    [&](auto functions) HWY_ATTR { use(value_and_slope<decltype(functions)>()); });
}

template <class T>
void weighted_forward_rows(const weighted_activation_forward<T>& op,
                           std::int64_t begin,
                           std::int64_t end) {
  const bool gated = op.kind == activation::swiglu;
  const std::int64_t N = op.N;
  with_both_of(op.kind, [&](auto both) HWY_ATTR {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* x = op.x + r * N * fan_in(op.kind);
      T* y = op.y + r * N;
      const vec weight = hn::Set(d, op.weight[r]);
      each(N, [=](std::int64_t i, auto step) HWY_ATTR {
        vec value, slope;
        decltype(both)::set(step.load(x + i), value, slope);
        value = hn::Mul(weight, value);
        step.store(gated ? hn::Mul(value, step.load(x + N + i)) : value, y + i);
      });
    }
  });
}

template <class T>
void weighted_backward_rows(const weighted_activation_backward<T>& op,
                            std::int64_t begin,
                            std::int64_t end) {
  const bool gated = op.kind == activation::swiglu;
  const std::int64_t N = op.N;
  with_both_of(op.kind, [&](auto both) HWY_ATTR {
    for (std::int64_t r = begin; r < end; ++r) {
      const T *x = op.x + r * N * fan_in(op.kind), *dy = op.dy + r * N;
      T* dx = op.dx + r * N * fan_in(op.kind);
      const vec weight = hn::Set(d, op.weight[r]);
      vec total = hn::Zero(d);
      each(N, [=, &total](std::int64_t i, auto step) HWY_ATTR {
        vec value, slope;
        decltype(both)::set(step.load(x + i), value, slope);
        vec up = step.load(dy + i), of_weight = hn::Mul(up, value);
        up = hn::Mul(weight, up);
        if (gated) {
          const vec linear = step.load(x + N + i);
          of_weight = hn::Mul(of_weight, linear);
          step.store(hn::Mul(up, value), dx + N + i);
          up = hn::Mul(up, linear);
        }
        step.store(hn::Mul(up, slope), dx + i);
        total = hn::Add(total, step.or_zero(of_weight));
      });
      op.dweight[r] = hn::GetLane(hn::SumOfLanes(d, total));
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
TROUPE_EXPORT(weighted_forward_rows);
TROUPE_EXPORT(weighted_backward_rows);

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

template <class T>
void run(const weighted_activation_forward<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.N), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(weighted_forward_rows, T)(op, begin, end);
  });
}

template <class T>
void run(const weighted_activation_backward<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.N), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(weighted_backward_rows, T)(op, begin, end);
  });
}

template void run(const activation_forward<float>&, const context&);
template void run(const activation_forward<bf16>&, const context&);
template void run(const activation_forward<f16>&, const context&);
template void run(const activation_backward<float>&, const context&);
template void run(const activation_backward<bf16>&, const context&);
template void run(const activation_backward<f16>&, const context&);
template void run(const weighted_activation_forward<float>&, const context&);
template void run(const weighted_activation_forward<bf16>&, const context&);
template void run(const weighted_activation_forward<f16>&, const context&);
template void run(const weighted_activation_backward<float>&, const context&);
template void run(const weighted_activation_backward<bf16>&, const context&);
template void run(const weighted_activation_backward<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
