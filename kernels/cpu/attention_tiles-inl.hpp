// Products of bf16 tiles for attention, and the packing of their factors. Requires TROUPE_TILES.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_ATTENTION_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ATTENTION_TILES_INL
#undef TROUPE_KERNELS_CPU_ATTENTION_TILES_INL
#else
#define TROUPE_KERNELS_CPU_ATTENTION_TILES_INL
#endif

#include "kernels/cpu/attention-inl.hpp"
#include "kernels/cpu/attention_tiles.hpp"
#include "kernels/cpu/tile_packing-inl.hpp"

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// A factor of a product, two tiles wide. `stride` is the distance between tile rows (a) or between
/// the two tiles (b), `step` the distance along the summed terms; both in elements.
struct tile_factor {
  const bf16* at;
  std::int64_t stride, step;
};

/// c (strip, strip) (+)= a b, over `steps` strips of terms.
HWY_NOINLINE void multiply_strips(const tile_factor& a,
                                  const tile_factor& b,
                                  std::int64_t steps,
                                  float* c,
                                  std::int64_t c_stride,
                                  bool add) {
  // gcc ignores that tile loads read memory: completes earlier stores first.
  asm volatile("" ::: "memory");
  const std::int64_t a_bytes = 2 * a.stride, c_bytes = 4 * c_stride;
  const bf16 *above_a = a.at, *left_b = b.at;
  const std::int64_t below_a = 16 * a.stride, right_b = b.stride, a_step = a.step, b_step = b.step;
  float* const below = c + 16 * c_stride;
  if (add) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + 16, c_bytes);
    _tile_loadd(2, below, c_bytes);
    _tile_loadd(3, below + 16, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t k = 0; k < steps; ++k, above_a += a_step, left_b += b_step) {
    _tile_loadd(4, above_a, a_bytes);
    _tile_loadd(6, left_b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, left_b + right_b, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, above_a + below_a, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
  _tile_stored(2, below, c_bytes);
  _tile_stored(3, below + 16, c_bytes);
  asm volatile("" ::: "memory");
}

/// Copies rows of a head into whole strips of `all` rows, padded with zeros.
inline void copy_rows(const bf16* from,
                      std::int64_t stride,
                      std::int64_t rows,
                      std::int64_t D,
                      std::int64_t all,
                      bf16* to) {
  const std::int64_t Ds = in_strips(D);
  for (std::int64_t i = 0; i < all; ++i, from += stride, to += Ds)
    for (std::int64_t c = 0; c < Ds; c += strip) {
      const std::int64_t n = i < rows ? std::min(strip, D - c) : 0;
      const auto lanes = __mmask32((std::uint64_t{1} << n) - 1);
      const __m512i row
          = n > 0 ? _mm512_maskz_loadu_epi16(lanes, from + c) : _mm512_setzero_si512();
      _mm512_storeu_si512(to + c, row);
    }
}

/// Packs rows (strip, Ds) as columns of a factor b, for sums over D: tiles (Ds / 32, 2).
inline void pack_columns_of_b(const bf16* rows, std::int64_t Ds, bf16* to) {
  for (std::int64_t c = 0; c < Ds; c += strip, to += 2 * tile_numbers)
    pack_columns_of_b(rows + c, Ds, reinterpret_cast<std::byte*>(to));
}

/// Packs rows (strip, Ds) as rows of a factor b, for sums over the rows: tiles (Ds / 16).
inline void pack_rows_of_b(const bf16* rows, std::int64_t Ds, bf16* to) {
  for (std::int64_t c = 0; c < Ds; c += strip, to += 2 * tile_numbers)
    pack_terms_of_b(rows + c, Ds, reinterpret_cast<std::byte*>(to));
}

/// Transposes a packed factor b (Ds / 16 tiles) into a factor a: tiles (Ds / 16).
inline void turn_tiles(const bf16* b, std::int64_t Ds, bf16* to) {
  for (std::int64_t n = 0; n < strip * Ds; n += tile_numbers)
    transpose_tile(b + n, 64, to + n, 64);
}

constexpr float log2_of_e = 1.44269504f;

/// 2^x for x below 128, to a few units in the last place. NaN stays NaN.
HWY_INLINE vec power_of_two(vec x) {
  // r is x minus the nearest integer: |r| <= 1/2.
  const vec r{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  const vec whole_part = hn::Sub(x, r);
  vec e = hn::MulAdd(r, hn::Set(d, 1.33813025e-3f), hn::Set(d, 9.66636852e-3f));
  e = hn::MulAdd(r, e, hn::Set(d, 0.0555038101f));
  e = hn::MulAdd(r, e, hn::Set(d, 0.24022349f));
  e = hn::MulAdd(r, e, hn::Set(d, 0.693147181f));
  e = hn::MulAdd(r, e, hn::Set(d, 1.0f));
  return vec{_mm512_scalef_ps(e.raw, whole_part.raw)};
}

/// Mask of the indices begin, begin + 1, ... that are in [first, end).
HWY_INLINE __mmask16 lanes_within(std::int64_t begin, std::int64_t first, std::int64_t end) {
  const __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_mask_cmplt_epi32_mask(
      _mm512_cmpge_epi32_mask(place, _mm512_set1_epi32(int(first - begin))),
      place,
      _mm512_set1_epi32(int(end - begin)));
}

/// Rounds to bf16: the 16 numbers of `low`, then of `high`. Denormals become zero; the following
/// product treats them as zero anyway.
HWY_INLINE __m512i rounded_pair(vec low, vec high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high.raw, low.raw);
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
