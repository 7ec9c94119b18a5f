#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

void embedding_rows(const embedding_forward<float>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* token = op.table + op.id[r] * op.C;
    float* y = op.y + r * op.C;
    if (!op.position_table) {
      each(op.C,
           [=](std::int64_t i, auto step) HWY_ATTR { step.store(step.load(token + i), y + i); });
      continue;
    }
    const float* position = op.position_table + op.position[r] * op.C;
    each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
      step.store(hn::Add(step.load(token + i), step.load(position + i)), y + i);
    });
  }
}

HWY_INLINE void accumulate(float* into, const float* from, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    step.store(hn::Add(step.load(into + i), step.load(from + i)), into + i);
  });
}

// All rows in order, for the columns of one thread: two rows of one token never meet.
void embedding_columns(const embedding_backward<float>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const float* dy = op.dy + r * op.C + begin;
    accumulate(op.dtable + op.id[r] * op.C + begin, dy, end - begin);
    if (op.dposition_table)
      accumulate(op.dposition_table + op.position[r] * op.C + begin, dy, end - begin);
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(embedding_rows);
HWY_EXPORT(embedding_columns);

template <>
void run(const embedding_forward<float>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.C), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(embedding_rows)(op, begin, end);
  });
}

template <>
void run(const embedding_backward<float>& op, const context& in) {
  // A multiple of a cache line of columns, so that threads rarely share one.
  const std::int64_t columns = (rows_worth_a_thread(op.R) + 15) / 16 * 16;
  split(in.threads, op.C, columns, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(embedding_columns)(op, begin, end);
  });
}

}  // namespace troupe::kernels::cpu
#endif
