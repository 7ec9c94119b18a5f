#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/permute.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void permute_rows(const permute<T>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t s = begin; s < end; ++s) {
    const std::int64_t place = op.place[s];
    T* y = op.y + s * op.C;
    if (place < 0) {
      std::fill_n(y, op.C, T(0.0F));
      continue;
    }
    const T* x = op.x + place / op.slots * op.C;
    if (!op.weight) {
      std::copy_n(x, op.C, y);
    } else {
      const vec weight = hn::Set(d, op.weight[place]);
      each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
        step.store(hn::Mul(weight, step.load(x + i)), y + i);
      });
    }
  }
}

template <class T>
void unpermute_rows(const unpermute<T>& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t slots = op.slots, C = op.C;
  const T* const x = op.x;
  for (std::int64_t r = begin; r < end; ++r) {
    T* y = op.y + r * C;
    const std::int32_t* slot = op.slot + r * slots;
    const float* weight = op.weight ? op.weight + r * slots : nullptr;
    each(C, [=](std::int64_t i, auto step) HWY_ATTR {
      vec sum = hn::Zero(d);
      for (std::int64_t j = 0; j < slots; ++j) {
        if (slot[j] < 0)
          continue;
        const vec one = step.load(x + slot[j] * C + i);
        sum = weight ? hn::MulAdd(hn::Set(d, weight[j]), one, sum) : hn::Add(one, sum);
      }
      step.store(sum, y + i);
    });
  }
}

template <class T>
void unpermute_weights(const unpermute_backward_weight<T>& op,
                       std::int64_t begin,
                       std::int64_t end) {
  for (std::int64_t j = begin; j < end; ++j) {
    op.dweight[j] = 0;
    if (op.slot[j] < 0)
      continue;
    const T *dy = op.dy + j / op.slots * op.C, *x = op.x + op.slot[j] * op.C;
    op.dweight[j] = sum(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
      return hn::Mul(step.load(dy + i), step.load(x + i));
    });
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(permute_rows);
TROUPE_EXPORT(unpermute_rows);
TROUPE_EXPORT(unpermute_weights);

}  // namespace

template <class T>
void run(const permute<T>& op, const context& in) {
  split(in.threads, op.S, rows_worth_a_thread(op.C), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(permute_rows, T)(op, begin, end);
  });
}

template <class T>
void run(const unpermute<T>& op, const context& in) {
  split(in.threads,
        op.R,
        rows_worth_a_thread(op.slots * op.C),
        [&](std::int64_t begin, std::int64_t end) {
          TROUPE_DISPATCH(unpermute_rows, T)(op, begin, end);
        });
}

template <class T>
void run(const unpermute_backward_weight<T>& op, const context& in) {
  split(in.threads,
        op.R * op.slots,
        rows_worth_a_thread(op.C),
        [&](std::int64_t begin, std::int64_t end) {
          TROUPE_DISPATCH(unpermute_weights, T)(op, begin, end);
        });
}

#define TROUPE_INSTANTIATE(T)                             \
  template void run(const permute<T>&, const context&);   \
  template void run(const unpermute<T>&, const context&); \
  template void run(const unpermute_backward_weight<T>&, const context&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
#endif
