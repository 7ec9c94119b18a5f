// The forward pass of attention with AMX tiles of bf16. Requires TROUPE_TILES.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_ATTENTION_FORWARD_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ATTENTION_FORWARD_TILES_INL
#undef TROUPE_KERNELS_CPU_ATTENTION_FORWARD_TILES_INL
#else
#define TROUPE_KERNELS_CPU_ATTENTION_FORWARD_TILES_INL
#endif

#include "kernels/cpu/attention_tiles-inl.hpp"

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// For each strip of queries and up to `scored_keys` keys: computes scores, their exponentials and
/// the product with the values. Exponentials are rounded to bf16, like in flash attention on GPUs.
/// Sums, maxima and outputs are float.
class tiled_forward_part : forward_base<bf16> {
 public:
  tiled_forward_part(const attention_forward<bf16>& op,
                     const part& which,
                     const tiled_forward_scratch& scratch)
      : forward_base(op, which), own_(scratch), Ds_(in_strips(a_.D)), Dvs_(in_strips(a_.Dv)) {}

  void run() {
    const tiles_in_use tiles_now;
    for (std::int64_t t = which_.first; t < tiles(in_.queries); t += which_.step) {
      look(own_.queries, a_, in_, t * tile);
      if (own_.queries.start < own_.queries.reach)
        copy_missing(own_.queries.start / strip,
                     in_strips(own_.queries.reach) / strip,
                     [this](std::int64_t s) TROUPE_TILE_ATTR { pack(s); });
      for (std::int64_t h = 0; h < a_.H / a_.G; ++h)
        one_head(t * tile, which_.g * (a_.H / a_.G) + h, h);
    }
  }

 private:
  void pack(std::int64_t t) {
    const std::int64_t j = t * strip, n = std::min(strip, in_.keys - j);
    copy_rows(keys_at(j), a_.key_row, n, a_.D, strip, own_.rows);
    pack_columns_of_b(own_.rows, Ds_, own_.keys + j * Ds_);
    copy_rows(values_at(j), a_.value_row, n, a_.Dv, strip, own_.rows);
    pack_rows_of_b(own_.rows, Dvs_, own_.values + j * Dvs_);
  }

  void one_head(std::int64_t first, std::int64_t head, std::int64_t of_group) {
    query_tile& q = own_.queries;
    copy_rows(queries(first, of_group), a_.query_row, q.rows, a_.D, in_strips(q.rows), own_.q);
    look_ahead(first, q.rows, head, of_group, copied_end() * strip);
    std::fill_n(q.row, tile, -std::numeric_limits<float>::infinity());
    std::fill_n(own_.sums, q.rows * width, 0.0f);
    keeping kept(a_, a_.p_drop > 0 ? a_.sample[which_.s] : 0, head, q.words);
    rows_of_strip strips[] = {strip_from(0), strip_from(strip)};
    // Scores of both strips come first, so that the products of one overlap the exponentials of the
    // other.
    for (std::int64_t j = q.start / scored_keys * scored_keys; j < q.reach; j += scored_keys) {
      for (rows_of_strip& rows : strips)
        score(rows, j);
      for (rows_of_strip& rows : strips)
        if (rows.keys > 0)
          gather(first, rows, kept);
    }
    for (const rows_of_strip& rows : strips)
      if (!rows.begun)
        std::fill_n(own_.o + rows.row * Dvs_, rows.n * Dvs_, 0.0f);
    finish(op_, in_, first, head, q, own_.sums, own_.o, Dvs_);
  }

  // Up to 32 rows of the query tile, and the range of keys they are currently processing.
  struct rows_of_strip {
    std::int64_t row, n;
    std::int64_t start, reach;  ///< range of all visible keys
    std::int64_t begin = 0, keys = 0;
    bool begun = false;                    ///< outputs are initialised
    bool clear[scored_keys / strip] = {};  ///< strips of keys that all rows see completely
  };

  rows_of_strip strip_from(std::int64_t row) const {
    const query_tile& q = own_.queries;
    const std::int64_t n = std::clamp<std::int64_t>(q.rows - row, 0, strip);
    if (n == 0)
      return {row, 0, 0, 0};
    return {row,
            n,
            *std::min_element(q.hidden + row, q.hidden + row + n),
            *std::max_element(q.visible + row, q.visible + row + n)};
  }

  // Computes the scores of the keys from j.
  void score(rows_of_strip& rows, std::int64_t j) {
    rows.begin = std::max(j, rows.start / strip * strip);
    rows.keys
        = in_strips(std::max<std::int64_t>(0, std::min(rows.reach, j + scored_keys) - rows.begin));
    const tile_factor q{own_.q + rows.row * Ds_, Ds_, strip};
    for (std::int64_t c = 0; c < rows.keys; c += strip) {
      next_.prefetch(rows_asked_for);
      const tile_factor k{own_.keys + (rows.begin + c) * Ds_, tile_numbers, 2 * tile_numbers};
      float* const s = own_.s + rows.row * scored_keys + c;
      multiply_strips(q, k, Ds_ / strip, s, scored_keys, false);
    }
  }

  // Turns scores into probabilities and adds to the outputs.
  void gather(std::int64_t first, rows_of_strip& rows, keeping& kept) {
    look_at_strips(rows);
    for (std::int64_t i = rows.row; i < rows.row + rows.n; ++i)
      raise_maximum(rows, i);
    if (rows.begun)
      shrink(rows);
    for (std::int64_t i = rows.row; i < rows.row + rows.n; ++i)
      if (a_.p_drop > 0)
        soften<true>(first, rows, i, kept);
      else
        soften<false>(first, rows, i, kept);
    const tile_factor p{
        reinterpret_cast<const bf16*>(own_.s + rows.row * scored_keys), 2 * scored_keys, strip};
    for (std::int64_t c = 0; c < Dvs_; c += strip) {
      next_.prefetch(rows_asked_for);
      const tile_factor v{own_.values + rows.begin * Dvs_ + c * strip, tile_numbers, strip * Dvs_};
      multiply_strips(p, v, rows.keys / strip, own_.o + rows.row * Dvs_ + c, Dvs_, rows.begun);
    }
    rows.begun = true;
  }

  void look_at_strips(rows_of_strip& rows) const {
    const std::int64_t *h = own_.queries.hidden + rows.row, *v = own_.queries.visible + rows.row;
    const std::int64_t hidden = *std::max_element(h, h + rows.n);
    const std::int64_t visible = *std::min_element(v, v + rows.n);
    for (std::int64_t c = 0; c < rows.keys; c += strip)
      rows.clear[c / strip] = hidden <= rows.begin + c && visible >= rows.begin + c + strip;
  }
  // Mask of the 16 keys from `begin` that row i sees.
  HWY_INLINE __mmask16 seen(std::int64_t i, std::int64_t begin) const {
    return lanes_within(begin, own_.queries.hidden[i], own_.queries.visible[i]);
  }

  void raise_maximum(const rows_of_strip& rows, std::int64_t i) {
    query_tile& q = own_.queries;
    const std::int64_t begin = rows.begin;
    const float* const s = own_.s + i * scored_keys;
    __m512 top = _mm512_set1_ps(-std::numeric_limits<float>::infinity()), other = top;
    for (std::int64_t c = 0; c < rows.keys; c += strip) {
      const __m512 s0 = _mm512_loadu_ps(s + c), s1 = _mm512_loadu_ps(s + c + width);
      // With this operand order, NaN scores are ignored.
      if (rows.clear[c / strip]) {
        top = _mm512_max_ps(s0, top);
        other = _mm512_max_ps(s1, other);
      } else {
        top = _mm512_mask_max_ps(top, seen(i, begin + c), s0, top);
        other = _mm512_mask_max_ps(other, seen(i, begin + c + width), s1, other);
      }
    }
    own_.before[i] = q.row[i];
    const float raised = hn::GetLane(hn::MaxOfLanes(d, vec{_mm512_max_ps(top, other)}));
    q.row[i] = std::max(q.row[i], raised * a_.scale);
  }

  // Rescales sums and outputs of the rows with a new maximum.
  void shrink(const rows_of_strip& rows) {
    const query_tile& q = own_.queries;
    for (std::int64_t i = rows.row; i < rows.row + rows.n; ++i) {
      const float before = own_.before[i];
      if (q.row[i] == before || before == -std::numeric_limits<float>::infinity())
        continue;
      const vec times = exp_below(hn::Set(d, before - q.row[i]));
      float* const sums = own_.sums + i * width;
      hn::StoreU(hn::Mul(hn::LoadU(d, sums), times), d, sums);
      float* const o = own_.o + i * Dvs_;
      for (std::int64_t c = 0; c < Dvs_; c += width)
        hn::StoreU(hn::Mul(hn::LoadU(d, o + c), times), d, o + c);
    }
  }

  // Turns the scores of row i into probabilities relative to its maximum, stored in the first half
  // of their memory.
  template <bool Dropout>
  void soften(std::int64_t first, const rows_of_strip& rows, std::int64_t i, keeping& kept) {
    const query_tile& q = own_.queries;
    const std::int64_t begin = rows.begin;
    float* const s = own_.s + i * scored_keys;
    const vec scale = hn::Set(d, a_.scale), top = hn::Set(d, q.row[i]);
    const vec to_power_of_two = hn::Set(d, log2_of_e);
    // Subtracts before scaling: for the maximum the difference must be exactly 0, however large
    // both are.
    const auto power = [&](vec score) TROUPE_TILE_ATTR {
      return power_of_two(hn::Mul(hn::Sub(hn::Mul(score, scale), top), to_power_of_two));
    };
    vec added = hn::Zero(d);
    for (std::int64_t c = 0; c < rows.keys; c += strip) {
      vec p0 = power(hn::LoadU(d, s + c));
      vec p1 = power(hn::LoadU(d, s + c + width));
      if (!rows.clear[c / strip]) {
        p0 = vec{_mm512_maskz_mov_ps(seen(i, begin + c), p0.raw)};
        p1 = vec{_mm512_maskz_mov_ps(seen(i, begin + c + width), p1.raw)};
      }
      added = hn::Add(added, hn::Add(p0, p1));
      if constexpr (Dropout) {
        const std::int64_t n = std::min(strip, q.visible[i] - begin - c);
        if (n > 0) {
          kept.draw(
              a_.query_position[in_.query + first + i], a_.key_position + in_.key + begin + c, n);
          p0 = hn::IfThenElseZero(kept.lanes(0), p0);
          p1 = hn::IfThenElseZero(kept.lanes(width), p1);
        }
      }
      _mm512_storeu_si512(reinterpret_cast<bf16*>(s) + c, rounded_pair(p0, p1));
    }
    float* const sums = own_.sums + i * width;
    hn::StoreU(hn::Add(hn::LoadU(d, sums), added), d, sums);
  }

  tiled_forward_scratch own_;
  const std::int64_t Ds_, Dvs_;
};

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
