// Packs operands of a product, multiplies them, and writes the result (packing.hpp).
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_PACKED_PRODUCT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_PACKED_PRODUCT_INL
#undef TROUPE_KERNELS_CPU_PACKED_PRODUCT_INL
#else
#define TROUPE_KERNELS_CPU_PACKED_PRODUCT_INL
#endif

#include "kernels/cpu/packing.hpp"
#include "kernels/cpu/product-inl.hpp"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr std::int64_t panel = block_vectors * width;
static_assert(widest_panel % panel == 0 && rows_of_block == block_rows);
static_assert(rows_at_once % block_rows == 0);

/// Packs `count` rows or columns of an operand side by side into `to` (depth, Across), padded with
/// zeros. `along`: each term is a row of memory.
template <std::int64_t Across, class T>
void pack_panel(const T* from,
                std::int64_t row,
                bool along,
                std::int64_t count,
                std::int64_t depth,
                float* to) {
  if (count < Across)
    std::fill_n(to, depth * Across, 0.0f);
  if (!along) {
    // A few cache lines of each row at a time: `to` of a whole panel does not fit the L1 cache.
    constexpr std::int64_t terms = 32;
    for (std::int64_t k = 0; k < depth; k += terms, from += terms, to += terms * Across)
      transpose(from, row, count, std::min(terms, depth - k), to, Across);
    return;
  }
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

/// Packs columns [begin, end) of the current part.
template <class T>
void pack_b(const packing<T>& at, std::int64_t begin, std::int64_t end) {
  const auto& b = at.of.b;
  // Rows of memory are read from end to end, a few at a time.
  const std::int64_t terms = b.transposed ? terms_at_once : 8;
  for (const auto& block : at.blocks)
    for (std::int64_t k = 0; k < block.depth; k += terms)
      for (std::int64_t n = begin; n < end; n += panel)
        pack_panel<panel>(
            block.b + (at.column + n) * (b.transposed ? b.row : 1) + k * (b.transposed ? 1 : b.row),
            b.row,
            !b.transposed,
            std::min(panel, end - n),
            std::min(terms, block.depth - k),
            at.packed_b + n * terms_at_once + (block.before + k) * panel);
}

/// Packs rows [begin, end) of the current part, at most rows_at_once.
template <class T>
void pack_a(const packing<T>& at, std::int64_t begin, std::int64_t end, float* to) {
  const auto& a = at.of.a;
  for (const auto& block : at.blocks)
    for (std::int64_t m = begin; m < end; m += block_rows)
      pack_panel<block_rows>(block.a + (at.row + m) * (a.transposed ? 1 : a.row),
                             a.row,
                             a.transposed,
                             std::min<std::int64_t>(block_rows, end - m),
                             block.depth,
                             to + (m - begin) * terms_at_once + block.before * block_rows);
}

/// Sums of a block in memory.
struct block_place {
  float* at;
  std::int64_t row;
};

/// The micro-kernel: sums of at most (block_rows, panel), added to `from` if that is not null.
/// Adding blocks of a sum has less rounding error than one long chain.
HWY_INLINE void multiply_block(const float* HWY_RESTRICT a,
                               const float* HWY_RESTRICT b,
                               std::int64_t depth,
                               block_place from,
                               block_place to,
                               std::int64_t rows,
                               std::int64_t columns,
                               bool streams) {
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
        float* const c = to.at + i * to.row + j * width;
        const vec total = from.at
                              ? hn::Add(hn::LoadU(d, from.at + i * from.row + j * width), sum[i][j])
                              : sum[i][j];
        if (streams)
          hn::Stream(total, d, c);
        else
          hn::StoreU(total, d, c);
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
    for (std::int64_t j = 0; j < columns; ++j) {
      const float one = all[i * panel + j];
      to.at[i * to.row + j] = from.at ? from.at[i * from.row + j] + one : one;
    }
}

/// Computes a block of c: the sums of all blocks of terms, one after another.
template <class T>
HWY_INLINE void multiply_blocks(const packing<T>& at,
                                const float* a,
                                const float* b,
                                block_place c,
                                std::int64_t rows,
                                std::int64_t columns,
                                bool adds,
                                bool streams) {
  HWY_ALIGN float total[block_rows * panel];
  if (!streams)  // c is needed only after the sums. A cache line is 16 floats.
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; j += 16)
        hwy::Prefetch(c.at + i * c.row + j);
      hwy::Prefetch(c.at + i * c.row + columns - 1);
    }
  block_place from = adds ? c : block_place{nullptr, 0};
  for (const auto& block : at.blocks) {
    const bool last = &block == &at.blocks.back();
    const block_place to = last ? c : block_place{total, panel};
    multiply_block(a + block.before * block_rows,
                   b + block.before * panel,
                   block.depth,
                   from,
                   to,
                   rows,
                   columns,
                   streams && last);
    from = to;
  }
}

/// True if c is written past the caches, in whole lines: reading the lines of a large c first takes
/// longer.
template <class T>
bool streams(const packing<T>& at) {
  constexpr std::int64_t line = 16, small = 1 << 16;
  return !at.sums && at.last && !at.begun && panel % line == 0 && at.of.N % line == 0
         && at.column % line == 0 && at.of.M * at.of.N > small
         && reinterpret_cast<std::uintptr_t>(at.of.c) % 64 == 0;
}

/// Computes rows [begin, end) and columns [first, last) of the current part; `a` is thread scratch.
template <class T>
void multiply_rows(const packing<T>& at,
                   std::int64_t begin,
                   std::int64_t end,
                   std::int64_t first,
                   std::int64_t last,
                   float* a) {
  const auto& p = at.of;
  float* const c = at.sums ? at.sums : p.c + at.row * p.N + at.column;
  const std::int64_t row = at.sums ? at.sums_row : p.N;
  const bool past_caches = streams(at);
  const std::int64_t times = (end - begin + rows_at_once - 1) / rows_at_once;
  const std::int64_t even = round_up((end - begin + times - 1) / times, block_rows);
  for (std::int64_t m = begin; m < end; m += even) {
    const std::int64_t rows = std::min(even, end - m);
    pack_a(at, m, m + rows, a);
    for (std::int64_t j = first; j < last; j += panel)
      for (std::int64_t i = 0; i < rows; i += block_rows)
        multiply_blocks(at,
                        a + i * terms_at_once,
                        at.packed_b + j * terms_at_once,
                        {c + (m + i) * row + j, row},
                        std::min<std::int64_t>(block_rows, rows - i),
                        std::min(panel, last - j),
                        at.begun,
                        past_caches);
  }
  if (past_caches)
    hwy::FlushStream();  // orders these stores before any later signal
}

/// Adds `depth` terms to the sums of Rows rows of a, in place, and Vectors vectors of a packed
/// panel of b.
template <int Rows, int Vectors>
HWY_INLINE void multiply_block_in_place(const float* HWY_RESTRICT a,
                                        std::int64_t row,
                                        const float* HWY_RESTRICT b,
                                        std::int64_t depth,
                                        bool begun,
                                        float* HWY_RESTRICT to,
                                        std::int64_t to_row) {
  vec sum[Rows][Vectors];
#pragma GCC unroll 32
  for (auto& of_row : sum)
#pragma GCC unroll 4
    for (auto& one : of_row)
      one = hn::Zero(d);
  const auto add = [&](std::int64_t k) HWY_ATTR {
    vec of_b[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j)
      of_b[j] = hn::LoadU(d, b + k * panel + j * width);
#pragma GCC unroll 32
    for (int i = 0; i < Rows; ++i) {
      const auto x = hn::Set(d, a[i * row + k]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j)
        sum[i][j] = hn::MulAdd(x, of_b[j], sum[i][j]);
    }
  };
  constexpr std::int64_t line = 16;
  std::int64_t k = 0;
  for (; k + line <= depth; k += line) {
#pragma GCC unroll 32
    for (int i = 0; i < Rows; ++i)
      hwy::Prefetch(a + (Rows + i) * row + k);  // the next block
    for (std::int64_t n = k; n < k + line; ++n)
      add(n);
  }
  for (; k < depth; ++k)
    add(k);
#pragma GCC unroll 32
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      float* const c = to + i * to_row + j * width;
      hn::StoreU(begun ? hn::Add(hn::LoadU(d, c), sum[i][j]) : sum[i][j], d, c);
    }
}

template <int Vectors>
HWY_NOINLINE void multiply_rows_in_place(const float* a,
                                         std::int64_t row,
                                         std::int64_t rows,
                                         const float* b,
                                         std::int64_t depth,
                                         bool begun,
                                         float* to,
                                         std::int64_t to_row) {
  constexpr int most = block_rows * block_vectors / Vectors;
  const auto some = [&]<int Rows>() HWY_ATTR {
    for (; rows >= Rows; rows -= Rows, a += Rows * row, to += Rows * to_row)
      multiply_block_in_place<Rows, Vectors>(a, row, b, depth, begun, to, to_row);
  };
  some.template operator()<most>();
  some.template operator()<most / 2>();
  some.template operator()<1>();
}

/// Adds the current terms to all sums of the current part. The rows of a are read in place.
template <class>
void multiply_in_place(const packing<float>& at) {
  const auto& a = at.of.a;
  const auto& block = at.blocks.front();
  for (std::int64_t j = 0; j < at.columns; j += panel) {
    const std::int64_t vectors = (std::min(panel, at.columns - j) + width - 1) / width;
    const auto by = vectors == 1   ? multiply_rows_in_place<1>
                    : vectors == 2 ? multiply_rows_in_place<2>
                    : vectors == 3 ? multiply_rows_in_place<std::min(3, block_vectors)>
                                   : multiply_rows_in_place<block_vectors>;
    by(block.a + at.row * a.row,
       a.row,
       at.rows,
       at.packed_b + j * terms_at_once,
       block.depth,
       at.begun,
       at.sums + j,
       at.sums_row);
  }
}

/// Writes the sums, transposed, and adds the bias.
template <class>
void write_transposed(const packing<float>& at, const product<float>& to) {
  float* const y = to.rounded + at.column * to.N + at.row;
  // A cache line of few rows of c at a time: rows are often a power of two apart.
  constexpr std::int64_t high = 4, line = 16;
  for (std::int64_t n = 0; n < at.rows; n += line)
    for (std::int64_t m = 0; m < at.columns; m += high)
      transpose(at.sums + n * at.sums_row + m,
                at.sums_row,
                std::min(line, at.rows - n),
                std::min(high, at.columns - m),
                y + m * to.N + n,
                to.N);
  if (to.bias)
    for (std::int64_t m = 0; m < at.columns; ++m) {
      float* const row = y + m * to.N;
      const float* const bias = to.bias + at.row;
      each(at.rows, [=](std::int64_t i, auto step) HWY_ATTR {
        step.store(hn::Add(step.load(row + i), step.load(bias + i)), row + i);
      });
    }
}

/// Adds the bias to rows [begin, end) of the sums and rounds once.
template <class T>
void round_rows(const packing<T>& at, std::int64_t begin, std::int64_t end) {
  const auto& p = at.of;
  const T* const bias = p.bias ? p.bias + at.column : nullptr;
  for (std::int64_t m = begin; m < end; ++m) {
    const float* const from = at.sums + m * at.sums_row;
    T* const to = p.rounded + (at.row + m) * p.N + at.column;
    each(at.columns, [=](std::int64_t i, auto step) HWY_ATTR {
      const vec sum = step.load(from + i);
      step.store(bias ? hn::Add(sum, step.load(bias + i)) : sum, to + i);
    });
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
