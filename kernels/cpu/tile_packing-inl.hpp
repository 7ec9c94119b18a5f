// Packs bf16 and float matrices into tiles (amx.hpp), for products and for attention.
//
// Compiled once per instruction set, like vector-inl.hpp. Requires TROUPE_TILES.

#if defined(TROUPE_KERNELS_CPU_TILE_PACKING_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_TILE_PACKING_INL
#undef TROUPE_KERNELS_CPU_TILE_PACKING_INL
#else
#define TROUPE_KERNELS_CPU_TILE_PACKING_INL
#endif

#include "kernels/cpu/amx-inl.hpp"

#include <cstddef>

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Loads 16 bytes of each of four rows, one row per lane. `apart`: distance of the rows in bytes.
HWY_INLINE __m512i load_lanes(const void* from, std::int64_t apart) {
  const auto lane = [=](std::int64_t row) TROUPE_TILE_ATTR {
    return _mm_loadu_si128(
        reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + row * apart));
  };
  __m512i out = _mm512_castsi128_si512(lane(0));
  out = _mm512_mask_broadcast_i32x4(out, 0x00f0, lane(1));
  out = _mm512_mask_broadcast_i32x4(out, 0x0f00, lane(2));
  return _mm512_mask_broadcast_i32x4(out, 0xf000, lane(3));
}

/// Transposes four adjacent 4 x 4 blocks of 32-bit numbers from x[0..3] into rows at `to`, `to_row`
/// bytes apart.
HWY_INLINE void put_transposed(const __m512i (&x)[4], void* to, std::int64_t to_row) {
  const __m512i a = _mm512_unpacklo_epi32(x[0], x[1]), b = _mm512_unpacklo_epi32(x[2], x[3]);
  const __m512i c = _mm512_unpackhi_epi32(x[0], x[1]), e = _mm512_unpackhi_epi32(x[2], x[3]);
  char* const out = static_cast<char*>(to);
  _mm512_storeu_si512(out, _mm512_unpacklo_epi64(a, b));
  _mm512_storeu_si512(out + to_row, _mm512_unpackhi_epi64(a, b));
  _mm512_storeu_si512(out + 2 * to_row, _mm512_unpacklo_epi64(c, e));
  _mm512_storeu_si512(out + 3 * to_row, _mm512_unpackhi_epi64(c, e));
}

/// Transposes 16 x 16 numbers of 32 bits, or pairs of bf16. Row distances are in bytes.
HWY_INLINE void transpose_tile(const void* from, std::int64_t row, void* to, std::int64_t to_row) {
  const char* const in = static_cast<const char*>(from);
#pragma GCC unroll 4
  for (int four = 0; four < 4; ++four) {
    __m512i x[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
      x[r] = load_lanes(in + r * row + 16 * four, 4 * row);
    put_transposed(x, static_cast<char*>(to) + 4 * four * to_row, to_row);
  }
}

/// Transposes 32 x 32 floats.
HWY_INLINE void transpose_block(const float* from, float* to) {
  constexpr std::int64_t row = block_side * sizeof(float);
  for (std::int64_t down = 0; down < block_side; down += 16)
    for (std::int64_t across = 0; across < block_side; across += 16)
      transpose_tile(from + down * block_side + across, row, to + across * block_side + down, row);
}

// The functions below pack 32 rows of a factor a, or 32 columns of a factor b, by 32 terms: two
// tiles (amx.hpp). `row` is the distance between rows in memory, in elements.

/// Each row of a is a row in memory.
HWY_INLINE void pack_rows_of_a(const bf16* from, std::int64_t row, std::byte* to) {
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < block_side; ++i, from += row, to += 64)
    _mm512_store_si512(to, _mm512_loadu_si512(from));
}

/// Each term is a row in memory.
HWY_INLINE void pack_terms_of_a(const bf16* from, std::int64_t row, std::byte* to) {
  for (std::int64_t i = 0; i < block_side; i += 8, from += 8, to += 8 * 64) {
    // Eight rows of a: each 128 bits of x[t] hold the terms t, t + 8, t + 16, t + 24.
    __m512i x[8], y[8];
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t)
      x[t] = load_lanes(from + t * row, 2 * 8 * row);
#pragma GCC unroll 4
    for (int t = 0; t < 8; t += 2) {
      y[t] = _mm512_unpacklo_epi16(x[t], x[t + 1]);
      y[t + 1] = _mm512_unpackhi_epi16(x[t], x[t + 1]);
    }
#pragma GCC unroll 2
    for (int t = 0; t < 8; t += 4)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        x[t + 2 * half] = _mm512_unpacklo_epi32(y[t + half], y[t + 2 + half]);
        x[t + 2 * half + 1] = _mm512_unpackhi_epi32(y[t + half], y[t + 2 + half]);
      }
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) {
      _mm512_store_si512(to + 2 * t * 64, _mm512_unpacklo_epi64(x[t], x[t + 4]));
      _mm512_store_si512(to + (2 * t + 1) * 64, _mm512_unpackhi_epi64(x[t], x[t + 4]));
    }
  }
}

/// Each term is a row in memory.
HWY_INLINE void pack_terms_of_b(const bf16* from, std::int64_t row, std::byte* to) {
#pragma GCC unroll 4
  for (std::int64_t pair = 0; pair < block_side / 2; ++pair, from += 2 * row, to += 64)
#pragma GCC unroll 2
    for (int tile = 0; tile < 2; ++tile) {
      const auto half = [=](const bf16* p) TROUPE_TILE_ATTR {
        return _mm512_cvtepu16_epi32(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16 * tile)));
      };
      _mm512_store_si512(to + tile * tile_bytes,
                         _mm512_or_si512(half(from), _mm512_slli_epi32(half(from + row), 16)));
    }
}

/// Each column of b is a row in memory.
HWY_INLINE void pack_columns_of_b(const bf16* from, std::int64_t row, std::byte* to) {
  transpose_tile(from, 2 * row, to, 64);
  transpose_tile(from + 16 * row, 2 * row, to + tile_bytes, 64);
}

/// Splits 32 x 32 floats into their bf16 pieces (amx.hpp). `row` is the distance between rows in
/// elements. Each piece is 32 rows of 64 bytes; pieces follow each other.
HWY_INLINE void split_rows(const float* from, std::int64_t row, std::byte* to) {
  // Clamps, because rounding the largest floats would give infinity and a NaN remainder.
  const __m512 largest = _mm512_castsi512_ps(_mm512_set1_epi32(0x7f7f0000));
  const __m512 smallest = _mm512_castsi512_ps(_mm512_set1_epi32(int(0xff7f0000)));
  // With this operand order, NaN stays NaN.
  const auto within = [=](__m512 x) TROUPE_TILE_ATTR {
    return _mm512_max_ps(smallest, _mm512_min_ps(largest, x));
  };
  const auto as_float = [](__m256i x) TROUPE_TILE_ATTR {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  };
  for (std::int64_t i = 0; i < block_side; ++i, from += row) {
    __m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + 16);
#pragma GCC unroll 3
    for (int piece = 0; piece < pieces_of<float>; ++piece) {
      const bool last = piece + 1 == pieces_of<float>;
      const auto both
          = (__m512i)_mm512_cvtne2ps_pbh(last ? high : within(high), last ? low : within(low));
      _mm512_store_si512(to + piece * square_bytes<bf16> + i * 64, both);
      low = _mm512_sub_ps(low, as_float(_mm512_castsi512_si256(both)));
      high = _mm512_sub_ps(high, as_float(_mm512_extracti64x4_epi64(both, 1)));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
