// Tile products with few rows, as in decoding: transposed c = transposed b times transposed a.
//
// The weight is read once, so it is not packed: 16 of its rows in memory already have the layout of
// a tile of factor a. Only the few rows of the input are packed. Sums run as in tile_product.cpp,
// so an element has the same bits with few rows as with many.
//
// Compiled once per instruction set, like vector-inl.hpp. Requires TROUPE_TILES.

#if defined(TROUPE_KERNELS_CPU_TILE_FEW_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_TILE_FEW_ROWS_INL
#undef TROUPE_KERNELS_CPU_TILE_FEW_ROWS_INL
#else
#define TROUPE_KERNELS_CPU_TILE_FEW_ROWS_INL
#endif

#include "kernels/cpu/tile_panels-inl.hpp"
#include "kernels/cpu/tile_result-inl.hpp"

#include <algorithm>

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Packs the squares [begin, end) along the terms of a, which has at most 32 rows, as a factor b.
/// The squares are stored one after another.
void pack_few_rows(const product<bf16>& of,
                   std::byte* packed,
                   std::int64_t begin,
                   std::int64_t end) {
  if (begin == end)
    return;
  tiled<bf16> at{.of = of, .packed_a = nullptr, .packed_b = nullptr, .sums = nullptr};
  at.term = begin * block_side;
  at.terms = std::min(of.K, end * block_side) - at.term;
  pack_panels<pack_columns_of_b, bf16>(
      of.a, false, at, 0, of.M, 0, 1, packed + begin * square_bytes<bf16>);
}

/// Computes 32 columns of c, transposed, in `sums`: `block_side` columns of 16 rows, or of 32 if
/// Tiles is 2. Explicit prefetches did not help, because the hardware predicts many adjacent
/// rows.
template <int Tiles>
HWY_INLINE void multiply_few(const product<bf16>& of,
                             const std::byte* packed,
                             std::int64_t column,
                             float* sums) {
  const std::int64_t wide = std::min(block_side, of.N - column), row = of.b.row;
  const bf16* const from = of.b.data + column * row;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  alignas(64) bf16 padded[block_side * block_side];
  for (std::int64_t k = 0; k < of.K; k += block_side, packed += square_bytes<bf16>) {
    const std::int64_t terms = std::min(block_side, of.K - k);
    const bool whole = wide == block_side && terms == block_side;
    if (!whole) {
      std::fill(std::begin(padded), std::end(padded), bf16());
      for (std::int64_t i = 0; i < wide; ++i)
        std::copy_n(from + i * row + k, terms, padded + i * block_side);
      asm volatile("" ::: "memory");  // gcc ignores that tile loads read memory
    }
    const bf16* const tile = whole ? from + k : padded;
    const std::int64_t apart = whole ? row : block_side;
    _tile_loadd(4, tile, apart * sizeof(bf16));
    _tile_loadd(5, tile + 16 * apart, apart * sizeof(bf16));
    if (!whole)
      asm volatile("" ::: "memory");  // keeps later writes to `padded` behind the loads
    _tile_loadd(6, packed, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (Tiles == 2) {
      _tile_loadd(7, packed + tile_bytes, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  constexpr int sums_row = block_side * sizeof(float);
  _tile_stored(0, sums, sums_row);
  _tile_stored(2, sums + 16 * block_side, sums_row);
  if constexpr (Tiles == 2) {
    _tile_stored(1, sums + 16, sums_row);
    _tile_stored(3, sums + 16 * block_side + 16, sums_row);
  }
  asm volatile("" ::: "memory");
}

template <int Tiles, class Activation>
void multiply_few_columns(const product<bf16>& of,
                          const std::byte* packed,
                          std::int64_t begin,
                          std::int64_t end) {
  asm volatile("" ::: "memory");  // completes the packing stores first
  const tiles_in_use tiles;
  alignas(64) float columns[block_floats], rows[block_floats];
  outgoing<bf16, Activation> out(of);
  constexpr std::int64_t row = block_side * sizeof(float);
  for (std::int64_t column = begin * block_side; column < std::min(of.N, end * block_side);
       column += block_side) {
    multiply_few<Tiles>(of, packed, column, columns);
    for (int down = 0; down < Tiles; ++down)
      for (int across = 0; across < 2; ++across)
        transpose_tile(columns + across * 16 * block_side + down * 16,
                       row,
                       rows + down * 16 * block_side + across * 16,
                       row);
    out.begin(rows, 0, column);
    out.rest();
  }
  _mm_sfence();  // orders non-temporal stores before any later signal
}

/// Computes columns of c, in units of 32: the units [begin, end).
inline void multiply_few_columns(const product<bf16>& of,
                                 const std::byte* packed,
                                 std::int64_t begin,
                                 std::int64_t end) {
  const auto with = [&]<class Activation>(Activation) TROUPE_TILE_ATTR {
    if (of.M <= 16)
      multiply_few_columns<1, Activation>(of, packed, begin, end);
    else
      multiply_few_columns<2, Activation>(of, packed, begin, end);
  };
  if (of.activation == epilogue::none)
    with(no_activation());
  else
    with_functions_of(activation_of(of.activation), with);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
