// A product in tiles of AMX while it is at work: how it is cut, and what is packed of it.
//
// Private to tile_product.cpp and what it includes.

#pragma once

#include "kernels/cpu/amx.hpp"
#include "kernels/cpu/product.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::kernels::cpu {

constexpr std::int64_t block_floats = block_side * block_side;

constexpr std::int64_t terms_of_panel = 512;

/// Of a: b is then read where it lies (tile_few_rows-inl.hpp).
constexpr std::int64_t most_rows_unpacked = block_side;

// Packed at a time: 16 to 18 MiB of a, which few products fill, and twice 4 to 4.5 of b. What is
// packed was in no cache before, and to write there costs three times as much as to where the last
// part was. Bits depend on `most_terms`.
constexpr std::int64_t most_rows = 2048, most_columns = 512;
template <class T>
constexpr std::int64_t most_terms = std::is_same_v<T, float> ? 1536 : 4096;
/// Sums of more terms than that are kept for as many columns: 32 MB.
constexpr std::int64_t columns_of_sums = 4096;
// Of the part of c whose sums are in the second cache (256 kB).
constexpr std::int64_t near_rows = 256, near_columns = 256;

constexpr std::int64_t panels_of(std::int64_t n) {
  return (n + block_side - 1) / block_side;
}

/// How the terms of a product are cut: `panels` of `terms` each, the last may have fewer.
struct depth {
  std::int64_t terms, panels;

  explicit depth(std::int64_t K) {
    const std::int64_t wanted = (K + terms_of_panel - 1) / terms_of_panel;
    terms = panels_of((K + wanted - 1) / wanted) * block_side;
    panels = (K + terms - 1) / terms;
  }
};

/// The part of a product that is at work, and what is packed of it: for each panel of terms, for
/// each 32 rows of a (columns of b), for each 32 terms, for each piece: two tiles.
template <class T>
struct tiled {
  const product<T>& of;
  std::byte* packed_a;
  std::byte* packed_b;
  float* sums;  ///< blocks of c: of all, column after column, or of a near part for each thread

  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
  std::int64_t term = 0, terms = 0;
  bool first = true, last = false;  ///< of the terms

  /// All terms are at work: only sums of a near part have to wait.
  bool all_terms() const { return first && last; }

  std::byte* a(std::int64_t panel_of_terms_begin, std::int64_t steps, std::int64_t panel) const {
    return packed_a
           + (panel_of_terms_begin / block_side * panels_of(rows) + panel * steps)
                 * square_bytes<T>;
  }
  std::byte* b(std::int64_t panel_of_terms_begin, std::int64_t steps, std::int64_t panel) const {
    return packed_b
           + (panel_of_terms_begin / block_side * panels_of(columns) + panel * steps)
                 * square_bytes<T>;
  }
};

}  // namespace troupe::kernels::cpu
