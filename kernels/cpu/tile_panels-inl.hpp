// Packs panels of a product's factors into tiles.
//
// Compiled once per instruction set, like vector-inl.hpp. Requires TROUPE_TILES.

#if defined(TROUPE_KERNELS_CPU_TILE_PANELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_TILE_PANELS_INL
#undef TROUPE_KERNELS_CPU_TILE_PANELS_INL
#else
#define TROUPE_KERNELS_CPU_TILE_PANELS_INL
#endif

#include "kernels/cpu/tile_packing-inl.hpp"
#include "kernels/cpu/tiled_product.hpp"

#include <algorithm>

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

using pack_step = void (*)(const bf16*, std::int64_t, std::byte*);

template <pack_step Pack>
HWY_INLINE void pack_pieces(const bf16* from, std::int64_t row, std::byte* to) {
  Pack(from, row, to);
}
template <pack_step Pack>
HWY_INLINE void pack_pieces(const float* from, std::int64_t row, std::byte* to) {
  if constexpr (Pack == &pack_rows_of_a)  // its tiles are rows of memory
    return split_rows(from, row, to);
  alignas(64) std::byte split[square_bytes<float>];
  split_rows(from, row, split);
  for (std::int64_t piece = 0; piece < square_bytes<float>; piece += square_bytes<bf16>)
    Pack(reinterpret_cast<const bf16*>(split + piece), block_side, to + piece);
}

/// Packs panels [begin, end) of `n` rows of a (or columns of b), counted from `first`. `along`:
/// each term is a row of memory. Elements beyond the operand are zero.
template <pack_step Pack, class T>
void pack_panels(const operand<T>& of,
                 bool along,
                 const tiled<T>& at,
                 std::int64_t first,
                 std::int64_t n,
                 std::int64_t begin,
                 std::int64_t end,
                 std::byte* packed) {
  const auto step = [&](std::int64_t panel, std::int64_t term, std::byte* to) TROUPE_TILE_ATTR {
    const std::int64_t across = first + panel * block_side, deep = at.term + term;
    const T* const from = of.data + (along ? deep * of.row + across : across * of.row + deep);
    const std::int64_t wide = std::min(block_side, n - panel * block_side);
    const std::int64_t high = std::min(block_side, at.terms - term);
    if (along)  // distant rows, which the hardware prefetcher misses
      for (std::int64_t i = block_side; i < 2 * block_side; ++i)
        for (std::size_t line = 0; line < block_side * sizeof(T) / 64; ++line)
          _mm_prefetch(from + i * of.row + line * 64 / sizeof(T), _MM_HINT_T0);
    if (wide == block_side && high == block_side)
      return pack_pieces<Pack>(from, of.row, to);
    T padded[block_side * block_side] = {};
    for (std::int64_t i = 0; i < (along ? high : wide); ++i)
      std::copy_n(from + i * of.row, along ? wide : high, padded + i * block_side);
    pack_pieces<Pack>(padded, block_side, to);
  };
  const depth cut(at.terms);
  for (std::int64_t t = 0; t < at.terms; t += cut.terms) {
    const std::int64_t steps = panels_of(std::min(cut.terms, at.terms - t));
    std::byte* const to = packed + t / block_side * panels_of(n) * square_bytes<T>;
    if (along)
      for (std::int64_t s = 0; s < steps; ++s)
        for (std::int64_t p = begin; p < end; ++p)
          step(p, t + s * block_side, to + (p * steps + s) * square_bytes<T>);
    else
      for (std::int64_t p = begin; p < end; ++p)
        for (std::int64_t s = 0; s < steps; ++s)
          step(p, t + s * block_side, to + (p * steps + s) * square_bytes<T>);
  }
}

template <class T>
void pack_a(const tiled<T>& at, std::int64_t begin, std::int64_t end) {
  const auto& a = at.of.a;
  (a.transposed ? pack_panels<pack_terms_of_a, T> : pack_panels<pack_rows_of_a, T>)(a,
                                                                                    a.transposed,
                                                                                    at,
                                                                                    at.row,
                                                                                    at.rows,
                                                                                    begin,
                                                                                    end,
                                                                                    at.packed_a);
}

template <class T>
void pack_b(const tiled<T>& at, std::int64_t begin, std::int64_t end) {
  const auto& b = at.of.b;
  (b.transposed ? pack_panels<pack_columns_of_b, T>
                : pack_panels<pack_terms_of_b, T>)(b,
                                                   !b.transposed,
                                                   at,
                                                   at.column,
                                                   at.columns,
                                                   begin,
                                                   end,
                                                   at.packed_b);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
