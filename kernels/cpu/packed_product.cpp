#include "kernels/cpu/product.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <omp.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/packed_product.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/product-inl.hpp"

#include <hwy/cache_control.h>
// clang-format on

// The loops of Goto and van de Geijn (product-inl.hpp): some columns of c, some terms of their
// sums, some rows.
#ifndef TROUPE_KERNELS_CPU_PACKED_PRODUCT
#define TROUPE_KERNELS_CPU_PACKED_PRODUCT
namespace troupe::kernels::cpu {
namespace {

constexpr std::int64_t terms_at_once = 384;     ///< 16 columns of b: 25 kB, of a first cache
constexpr std::int64_t rows_at_once = 192;      ///< of a: 295 kB, of a second cache
constexpr std::int64_t columns_at_once = 4096;  ///< of b: 6 MB, of the last cache
constexpr std::int64_t sums_at_once = 1 << 22;  ///< of a narrow c: 17 MB

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// Threads divide a product at these, whatever the instruction set.
constexpr std::int64_t widest_panel = 64;
constexpr std::int64_t rows_of_block = 6;

/// What is packed of a product at once, and where.
template <class T>
struct packing {
  const product<T>& of;
  std::int64_t columns;  ///< at most, a multiple of the panels'
  float* b;              ///< (columns / panel, terms_at_once, panel)
  float* sums;           ///< (M, columns), or null where c is float
  float* a;              ///< of each thread, (rows_at_once / block, terms_at_once, block)

  // Those that are at work: columns [column, column + n) and terms [term, term + depth).
  std::int64_t column = 0, n = 0, term = 0, depth = 0;
};

template <class T>
std::int64_t columns_of(const product<T>& p) {
  auto most = columns_at_once;
  if (p.narrow)
    most = std::clamp(sums_at_once / p.M / widest_panel * widest_panel, widest_panel, most);
  return std::min(most, round_up(p.N, widest_panel));
}

}  // namespace
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr std::int64_t panel = block_vectors * width;
static_assert(widest_panel % panel == 0 && rows_of_block == block_rows);
static_assert(rows_at_once % block_rows == 0);

/// `count` rows or columns of an operand side by side: to (depth, Across), the rest zero. `along`:
/// a term is a row of memory.
template <std::int64_t Across, class T>
void pack_side_by_side(const T* from,
                       std::int64_t row,
                       bool along,
                       std::int64_t count,
                       std::int64_t depth,
                       float* to) {
  if (count < Across)
    std::fill_n(to, depth * Across, 0.0f);
  if (!along)
    return transpose(from, row, count, depth, to, Across);
  for (std::int64_t k = 0; k < depth; ++k, from += row, to += Across) {
    if constexpr (Across % width == 0) {
      if (count == Across) {
#pragma GCC unroll 4
        for (std::int64_t i = 0; i < Across; i += width)
          hn::StoreU(whole{}.load(from + i), d, to + i);
        continue;
      }
    }
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = float(from[i]);
  }
}

/// Columns [begin, end) of those at work.
template <class T>
void pack_columns(const packing<T>& at, std::int64_t begin, std::int64_t end) {
  const auto& b = at.of.b;
  for (std::int64_t n = begin; n < end; n += panel) {
    const std::int64_t column = at.column + n;
    const std::int64_t offset = b.transposed ? column * b.row + at.term : at.term * b.row + column;
    pack_side_by_side<panel>(b.data + offset,
                             b.row,
                             !b.transposed,
                             std::min(panel, end - n),
                             at.depth,
                             at.b + n * terms_at_once);
  }
}

/// A block of c, at most (block_rows, panel): written or added to.
HWY_INLINE void multiply_block(const float* HWY_RESTRICT a,
                               const float* HWY_RESTRICT b,
                               std::int64_t depth,
                               float* HWY_RESTRICT c,
                               std::int64_t row,
                               std::int64_t rows,
                               std::int64_t columns,
                               bool add) {
  for (std::int64_t i = 0; i < rows; ++i) {  // c is wanted when the sums are there, and far away
    hwy::Prefetch(c + i * row);
    hwy::Prefetch(c + i * row + columns - 1);
  }
  vec sum[block_rows][block_vectors];
#pragma GCC unroll 8
  for (auto& of_row : sum)
#pragma GCC unroll 4
    for (auto& one : of_row)
      one = hn::Zero(d);
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < depth; ++k, a += block_rows, b += panel) {
    vec of_b[block_vectors];
#pragma GCC unroll 4
    for (int j = 0; j < block_vectors; ++j)
      of_b[j] = hn::LoadU(d, b + j * width);
#pragma GCC unroll 8
    for (int i = 0; i < block_rows; ++i) {
      const auto x = hn::Set(d, a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < block_vectors; ++j)
        sum[i][j] = hn::MulAdd(x, of_b[j], sum[i][j]);
    }
  }
  if (rows == block_rows && columns == panel) {
#pragma GCC unroll 8
    for (int i = 0; i < block_rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < block_vectors; ++j) {
        float* const to = c + i * row + j * width;
        hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sum[i][j]) : sum[i][j], d, to);
      }
    return;
  }
  HWY_ALIGN float all[block_rows * panel];
#pragma GCC unroll 8
  for (int i = 0; i < block_rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < block_vectors; ++j)
      hn::Store(sum[i][j], d, all + i * panel + j * width);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      c[i * row + j] = add ? c[i * row + j] + all[i * panel + j] : all[i * panel + j];
}

/// Rows [begin, end) of columns [first, last) of those at work; `a` is the thread's.
template <class T>
void multiply_rows(const packing<T>& at,
                   std::int64_t begin,
                   std::int64_t end,
                   std::int64_t first,
                   std::int64_t last,
                   float* a) {
  const auto& p = at.of;
  float* const c = at.sums ? at.sums : p.c + at.column;
  const std::int64_t row = at.sums ? at.columns : p.N;
  const bool add = at.term > 0 || (!at.sums && p.accumulated);
  const std::int64_t times = (end - begin + rows_at_once - 1) / rows_at_once;
  const std::int64_t even = round_up((end - begin + times - 1) / times, block_rows);
  for (std::int64_t m = begin; m < end; m += even) {
    const std::int64_t rows = std::min(even, end - m);
    for (std::int64_t i = 0; i < rows; i += block_rows) {
      const std::int64_t offset
          = p.a.transposed ? at.term * p.a.row + m + i : (m + i) * p.a.row + at.term;
      pack_side_by_side<block_rows>(p.a.data + offset,
                                    p.a.row,
                                    p.a.transposed,
                                    std::min<std::int64_t>(block_rows, rows - i),
                                    at.depth,
                                    a + i * terms_at_once);
    }
    for (std::int64_t j = first; j < last; j += panel)
      for (std::int64_t i = 0; i < rows; i += block_rows)
        multiply_block(a + i * terms_at_once,
                       at.b + j * terms_at_once,
                       at.depth,
                       c + (m + i) * row + j,
                       row,
                       std::min<std::int64_t>(block_rows, rows - i),
                       std::min(panel, last - j),
                       add);
  }
}

/// Rows [begin, end) of the sums at work, with their bias: rounded once.
template <class T>
void round_rows(const packing<T>& at, std::int64_t begin, std::int64_t end) {
  const auto& p = at.of;
  const T* const bias = p.bias ? p.bias + at.column : nullptr;
  for (std::int64_t m = begin; m < end; ++m) {
    const float* const from = at.sums + m * at.columns;
    T* const to = p.narrow + m * p.N + at.column;
    each(at.n, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec sum = step.load(from + i);
      step.store(bias ? hn::Add(sum, step.load(bias + i)) : sum, to + i);
    });
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(pack_columns);
TROUPE_EXPORT(multiply_rows);
TROUPE_EXPORT(round_rows);

}  // namespace

template <class T>
std::size_t packed_scratch(const product<T>& p, int threads) {
  const std::int64_t columns = columns_of(p);
  const std::int64_t floats = columns * terms_at_once + (p.narrow ? p.M * columns : 0)
                              + threads * rows_at_once * terms_at_once;
  return sizeof(float) * std::size_t(floats);
}

template <class T>
void multiply_packed(const product<T>& p, const context& in) {
  packing<T> at{.of = p,
                .columns = columns_of(p),
                .b = scratch_array<float>(in, packed_scratch(p, in.threads)),
                .sums = nullptr,
                .a = nullptr};
  at.a = at.b + at.columns * terms_at_once;
  if (p.narrow)
    at.sums = at.a + in.threads * rows_at_once * terms_at_once;
  // Each thread packs its own rows; all of them, where they are few and columns are divided.
  const bool by_rows = p.M >= 4 * rows_of_block * in.threads || p.M >= p.N;

  for (at.column = 0; at.column < p.N; at.column += at.columns) {
    at.n = std::min(at.columns, p.N - at.column);
    for (at.term = 0; at.term < p.K; at.term += terms_at_once) {
      at.depth = std::min(terms_at_once, p.K - at.term);
      split(in.threads, at.n, widest_panel, [&](std::int64_t begin, std::int64_t end) {
        TROUPE_DISPATCH(pack_columns, T)(at, begin, end);
      });
      split(in.threads,
            by_rows ? p.M : at.n,
            by_rows ? rows_of_block : widest_panel,
            [&](std::int64_t begin, std::int64_t end) {
              float* const a = at.a + omp_get_thread_num() * rows_at_once * terms_at_once;
              if (by_rows)
                TROUPE_DISPATCH(multiply_rows, T)(at, begin, end, 0, at.n, a);
              else
                TROUPE_DISPATCH(multiply_rows, T)(at, 0, p.M, begin, end, a);
            });
    }
    if (p.narrow)
      split(in.threads, p.M, rows_worth_a_thread(at.n), [&](std::int64_t begin, std::int64_t end) {
        TROUPE_DISPATCH(round_rows, T)(at, begin, end);
      });
  }
}

#define TROUPE_INSTANTIATE(T)                                  \
  template std::size_t packed_scratch(const product<T>&, int); \
  template void multiply_packed(const product<T>&, const context&);
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cpu
#endif
