// State of a product with AMX tiles: its division into panels and its packed factors. Private to
// tile_product.cpp and its includes.

#pragma once

#include "kernels/cpu/amx.hpp"
#include "kernels/cpu/product.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::kernels::cpu {

constexpr std::int64_t block_floats = block_side * block_side;

constexpr std::int64_t terms_of_panel = 512;

/// Rows of a up to which b is read in place (tile_few_rows-inl.hpp).
constexpr std::int64_t most_rows_unpacked = block_side;

// Limits of what is packed at a time: 16 to 18 MiB of a, which few products reach, and twice 4 to
// 4.5 MiB of b. Packing into fresh memory costs three times as much as reusing the last buffer.
// Bits depend on `most_terms`.
constexpr std::int64_t most_rows = 2048, most_columns = 512;
template <class T>
constexpr std::int64_t most_terms = std::is_same_v<T, float> ? 1536 : 4096;
/// Columns of c with stored sums, if a product has more than `most_terms` terms: 32 MB.
constexpr std::int64_t columns_of_sums = 4096;
/// Columns of a part that are packed at a time: they stay in the L2 cache until they are used.
constexpr std::int64_t columns_nearby = 128;
// Size of a near part of c; its sums fit in the L2 cache (256 kB).
constexpr std::int64_t near_rows = 256, near_columns = 256;

constexpr std::int64_t panels_of(std::int64_t n) {
  return (n + block_side - 1) / block_side;
}

/// Division of a product's terms into `panels` of `terms` each; the last may have fewer.
struct depth {
  std::int64_t terms, panels;

  explicit depth(std::int64_t K) {
    const std::int64_t wanted = (K + terms_of_panel - 1) / terms_of_panel;
    terms = panels_of((K + wanted - 1) / wanted) * block_side;
    panels = (K + terms - 1) / terms;
  }
};

/// The current part of a product and its packed factors. The packed order is: panel of terms, 32
/// rows of a (columns of b), 32 terms, piece. Each entry has two tiles.
template <class T>
struct tiled {
  const product<T>& of;
  std::byte* packed_a;
  std::byte* packed_b;
  float* sums;  ///< blocks of c in column order; or one near part per thread

  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
  std::int64_t first_column = 0;  ///< of the stored sums, if all terms are not processed at once
  std::int64_t term = 0, terms = 0;
  bool first = true, last = false;  ///< whether these are the first or last terms
  /// Not null: c is the transposed result of this product, and a is read in place: the rows of its
  /// weight, in whole squares.
  const product<T>* turned = nullptr;

  /// True if all terms are processed at once: then only sums of a near part must be kept.
  bool all_terms() const { return first && last; }

  /// Squares of a along the terms. Distances are in bytes.
  struct squares_of_a {
    const std::byte* at;
    std::int64_t row = 64, next = square_bytes<T>;
  };
  squares_of_a a(std::int64_t panel_of_terms_begin, std::int64_t steps, std::int64_t panel) const {
    if (turned) {
      const std::int64_t begin = (row + panel * block_side) * of.a.row;
      return {
          .at = reinterpret_cast<const std::byte*>(of.a.data + begin + term + panel_of_terms_begin),
          .row = of.a.row * std::int64_t{sizeof(T)},
          .next = block_side * sizeof(T)};
    }
    return {packed_a
            + (panel_of_terms_begin / block_side * panels_of(rows) + panel * steps)
                  * square_bytes<T>};
  }
  std::byte* b(std::int64_t panel_of_terms_begin, std::int64_t steps, std::int64_t panel) const {
    return packed_b
           + (panel_of_terms_begin / block_side * panels_of(columns) + panel * steps)
                 * square_bytes<T>;
  }
};

}  // namespace troupe::kernels::cpu
