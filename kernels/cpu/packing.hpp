// Blocks of a product whose operands are packed, and their sizes.
//
// The five loops of Goto and van de Geijn go around the kernel of product-inl.hpp, as in BLIS. The
// constants below are the block sizes that BLIS calls KC, MC, NC, NR and MR.

#pragma once

#include "kernels/cpu/product.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace troupe::kernels::cpu {
namespace {

/// Terms per block of a sum. A panel of b takes 12 kB (SSE4) or 25 kB (AVX2) of the L1 cache, 98 kB
/// with AVX-512. Equal for all instruction sets, because bits depend on it.
constexpr std::int64_t terms_at_once = 384;
constexpr std::int64_t rows_at_once = 192;      ///< rows of a: 295 kB of the L2 cache
constexpr std::int64_t columns_at_once = 4096;  ///< columns of b: 6 MB of the last-level cache
/// Rows of sums that are kept for a narrow c, with `columns_at_once` columns: 17 MB.
constexpr std::int64_t rows_of_sums = 1024;

// Threads divide a product at multiples of these, in every instruction set.
constexpr std::int64_t widest_panel = 64;
constexpr std::int64_t rows_of_block = 6;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

template <class T>
std::int64_t columns_of(const product<T>& p) {
  return std::min(columns_at_once, round_up(p.N, widest_panel));
}
template <class T>
std::int64_t rows_of(const product<T>& p) {
  return p.rounded ? std::min(rows_of_sums, p.M) : p.M;
}

/// Terms of a product that are packed at a time; of a series those of several short products.
template <class T>
struct term_block {
  const T *a, *b;       ///< their first term, of row or column 0
  std::int64_t depth;   ///< number of terms
  std::int64_t before;  ///< packed terms of earlier blocks
};

/// The part of a product being computed, and its packed operands.
template <class T>
struct packing {
  const product<T>& of;
  float* packed_b;  ///< (columns / panel, terms_at_once, panel)
  float* packed_a;  ///< per thread (rows_at_once / rows_of_block, terms_at_once, rows_of_block)
  float* sums;      ///< (rows, sums_row) for a rounded c; else null
  std::int64_t sums_row;  ///< at least `columns`

  std::int64_t row = 0, rows = 0;        ///< [row, row + rows) of c
  std::int64_t column = 0, columns = 0;  ///< [column, column + columns) of c
  std::span<const term_block<T>> blocks = {};
  bool begun = false;  ///< c, or `sums`, has sums of earlier terms
  bool last = false;   ///< these are the last terms
};

/// Terms [term, term + depth) of a product.
template <class T>
term_block<T> block_of(const product<T>& p,
                       std::int64_t term,
                       std::int64_t depth,
                       std::int64_t before = 0) {
  return {.a = p.a.data + term * (p.a.transposed ? p.a.row : 1),
          .b = p.b.data + term * (p.b.transposed ? 1 : p.b.row),
          .depth = depth,
          .before = before};
}

}  // namespace
}  // namespace troupe::kernels::cpu
