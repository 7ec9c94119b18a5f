#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/vector-inl.hpp"

#include <hwy/cache_control.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Row r's entry in the table, or null if the table is a shard without it.
template <class Op, class Table>
HWY_INLINE Table* row_of(const Op& op, Table* table, std::int64_t r) {
  const std::int64_t row = std::int64_t{op.id[r]} - op.first;
  return row >= 0 && row < op.rows ? table + row * op.C : nullptr;
}

template <class T>
void embedding_rows(const embedding_forward<T>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const T* token = row_of(op, op.table, r);
    T* y = op.y + r * op.C;
    const T* position = op.position_table ? op.position_table + op.position[r] * op.C : nullptr;
    if (token && position)
      each(op.C, [=](std::int64_t i, auto step) HWY_ATTR {
        step.store(hn::Add(step.load(token + i), step.load(position + i)), y + i);
      });
    else if (token || position)
      std::copy_n(token ? token : position, op.C, y);
    else
      std::fill_n(y, op.C, T(0.0f));
  }
}

template <class T>
HWY_INLINE void accumulate(float* into, const T* from, std::int64_t n) {
  each(n, [=](std::int64_t i, auto step) HWY_ATTR {
    step.store(hn::Add(step.load(into + i), step.load(from + i)), into + i);
  });
}

// Each thread adds all rows in order for its own columns, so equal ids never conflict.
template <class T>
void embedding_columns(const embedding_backward<T>& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* dy = op.dy + r * op.C + begin;
    if (float* token = row_of(op, op.dtable, r))
      accumulate(token + begin, dy, end - begin);
    if (op.dposition_table)
      accumulate(op.dposition_table + op.position[r] * op.C + begin, dy, end - begin);
  }
}

/// Stores past the caches: a large table exceeds them, and few of its rows are read soon.
template <class>  // signature required by TROUPE_EXPORT
void zero_range(float* to, std::int64_t begin, std::int64_t end) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(to + begin) % (width * sizeof(float)) == 0;
  if (!aligned)
    return void(std::fill(to + begin, to + end, 0.0F));
  for (; begin + width <= end; begin += width)
    hn::Stream(hn::Zero(d), d, to + begin);
  std::fill(to + begin, to + end, 0.0F);
  hwy::FlushStream();
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

TROUPE_EXPORT(embedding_rows);
TROUPE_EXPORT(embedding_columns);
TROUPE_EXPORT(zero_range);

namespace {

constexpr std::int64_t elements_past_the_caches = 1 << 20;  // 4 MB

}  // namespace

template <class T>
void run(const embedding_forward<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.C), [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(embedding_rows, T)(op, begin, end);
  });
}

template <class T>
void run(const embedding_backward<T>& op, const context& in) {
  if (!op.accumulates) {
    const std::int64_t n = op.rows * op.C;
    split(in.threads, n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
      if (n < elements_past_the_caches)
        std::fill(op.dtable + begin, op.dtable + end, 0.0F);
      else
        TROUPE_DISPATCH(zero_range, float)(op.dtable, begin, end);
    });
  }
  // Whole cache lines of columns, so that threads rarely share a line.
  const std::int64_t columns = (rows_worth_a_thread(op.R) + 15) / 16 * 16;
  split(in.threads, op.C, columns, [&](std::int64_t begin, std::int64_t end) {
    TROUPE_DISPATCH(embedding_columns, T)(op, begin, end);
  });
}

template void run(const embedding_forward<float>&, const context&);
template void run(const embedding_forward<bf16>&, const context&);
template void run(const embedding_forward<f16>&, const context&);
template void run(const embedding_backward<float>&, const context&);
template void run(const embedding_backward<bf16>&, const context&);
template void run(const embedding_backward<f16>&, const context&);

}  // namespace troupe::kernels::cpu
#endif
