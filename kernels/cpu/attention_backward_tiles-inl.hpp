// The backward pass of attention with AMX tiles of bf16. Requires TROUPE_TILES.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_ATTENTION_BACKWARD_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ATTENTION_BACKWARD_TILES_INL
#undef TROUPE_KERNELS_CPU_ATTENTION_BACKWARD_TILES_INL
#else
#define TROUPE_KERNELS_CPU_ATTENTION_BACKWARD_TILES_INL
#endif

#include "kernels/cpu/attention_tiles-inl.hpp"

#ifdef TROUPE_TILES
HWY_PUSH_ATTRIBUTES(TROUPE_TILE_ATTRIBUTES)
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Scores are computed transposed, with a row per key, so p and ds can multiply into dv and dk
/// without another transpose. dq needs ds in pairs of rows, and that product yields dq as columns.
/// p and ds are rounded to bf16, like in flash attention on GPUs; sums are float.
class tiled_backward_part : backward_base<bf16> {
 public:
  tiled_backward_part(const attention_backward<bf16>& op,
                      const part& which,
                      const tiled_backward_scratch& scratch,
                      float* partial_dq)
      : backward_base(op, which, partial_dq),
        own_(scratch),
        Ds_(in_strips(a_.D)),
        Dvs_(in_strips(a_.Dv)) {}

  void run() {
    const tiles_in_use tiles_now;
    for (std::int64_t t = which_.first; t < tiles(in_.keys); t += which_.step)
      pack(t);
    for (std::int64_t first = 0; first < in_.queries; first += tile) {
      look(own_.queries, a_, in_, first);
      for (std::int64_t i = own_.queries.rows; i < tile; ++i) {
        own_.queries.hidden[i] = in_.keys;
        own_.queries.visible[i] = 0;
      }
      for (std::int64_t h = 0; h < a_.H / a_.G; ++h)
        one_head(first, which_.g * (a_.H / a_.G) + h, h);
    }
    for (std::int64_t t = which_.first; t < tiles(in_.keys); t += which_.step)
      write_keys(t);
  }

 private:
  std::int64_t place(std::int64_t t) const { return t / which_.step; }

  void pack(std::int64_t t) {
    const std::int64_t n = std::min(tile, in_.keys - t * tile), at = place(t) * tile;
    const std::int64_t all = in_strips(n);
    bf16* const keys = own_.keys + at * Ds_;
    copy_rows(k_ + t * tile * a_.key_row, a_.key_row, n, a_.D, all, keys);
    copy_rows(v_ + t * tile * a_.value_row, a_.value_row, n, a_.Dv, all, own_.values + at * Dvs_);
    for (std::int64_t j = 0; j < all; j += strip) {
      pack_rows_of_b(keys + j * Ds_, Ds_, own_.rows);
      turn_tiles(own_.rows, Ds_, own_.key_columns + (at + j) * Ds_);
    }
    std::fill_n(own_.dk + at * Ds_, all * Ds_, 0.0f);
    std::fill_n(own_.dv + at * Dvs_, all * Dvs_, 0.0f);
  }

  // Packs rows of q or d_o in the two layouts that the products need.
  void pack_queries(
      const bf16* from, std::int64_t stride, std::int64_t D, bf16* columns, bf16* pairs) {
    const std::int64_t all = in_strips(own_.queries.rows), Ds = in_strips(D);
    copy_rows(from, stride, own_.queries.rows, D, all, own_.rows);
    for (std::int64_t i = 0; i < all * Ds; i += strip * Ds) {
      pack_columns_of_b(own_.rows + i, Ds, columns + i);
      pack_rows_of_b(own_.rows + i, Ds, pairs + i);
    }
  }

  void one_head(std::int64_t first, std::int64_t head, std::int64_t of_group) {
    query_tile& q = own_.queries;
    const std::int64_t row = in_.query + first, place_of_q = place_of_queries(first, of_group);
    const std::int64_t row_of_o = a_.H * a_.Dv, place_of_o = (row * a_.H + head) * a_.Dv;
    pack_queries(op_.q + place_of_q, a_.query_row, a_.D, own_.q_columns, own_.q_pairs);
    pack_queries(op_.d_o + place_of_o, row_of_o, a_.Dv, own_.d_o_columns, own_.d_o_pairs);
    std::fill_n(q.row, 2 * tile, 0.0f);
    std::copy_n(op_.lse + in_.lse_at(a_.H, head, first), q.rows, q.row);
    for (std::int64_t i = 0; i < q.rows; ++i) {
      const bf16 *d_o = op_.d_o + place_of_o + i * row_of_o, *o = op_.o + place_of_o + i * row_of_o;
      q.row[tile + i] = sum(a_.Dv, [=](std::int64_t c, auto step) HWY_ATTR {
        return hn::Mul(step.load(d_o + c), step.load(o + c));
      });
    }
    look_ahead(first, q.rows, of_group);

    keeping kept(a_, a_.p_drop > 0 ? a_.sample[which_.s] : 0, head, q.words);
    const std::int64_t hidden_tiles = std::max<std::int64_t>(0, q.start / tile - which_.first);
    const std::int64_t turns = (hidden_tiles + which_.step - 1) / which_.step;
    bool begun = false;
    for (std::int64_t t = which_.first + turns * which_.step; t * tile < q.reach;
         t += which_.step) {
      if (a_.p_drop > 0)
        draw(first, t * tile, kept);
      begun = one_tile(t, begun) || begun;
    }
    if (begun)
      turn_dq();
    else
      std::fill_n(own_.dq, tile * Ds_, 0.0f);
    if (partial_dq_)
      write(own_.dq,
            Ds_,
            q.rows,
            a_.D,
            a_.scale,
            partial_dq_ + (row * a_.H + head) * a_.D,
            a_.H * a_.D);
    else
      write(own_.dq, Ds_, q.rows, a_.D, a_.scale, op_.dq + place_of_q, a_.query_row);
  }

  // Draws which keys of the tile from `begin` each row keeps.
  void draw(std::int64_t first, std::int64_t begin, keeping& kept) {
    const query_tile& q = own_.queries;
    for (std::int64_t i = 0; i < q.rows; ++i) {
      own_.kept[i] = 0;
      const std::int64_t seen = columns(q, i, 1, begin);
      if (seen == 0)
        continue;
      kept.draw(a_.query_position[in_.query + first + i], a_.key_position + in_.key + begin, seen);
      for (std::int64_t c = 0; c < seen; c += width)
        own_.kept[i] |= std::uint64_t{kept.lanes(c).raw} << c;
    }
    std::fill(own_.kept + q.rows, own_.kept + tile, 0);
  }

  // The strips [first, end) of queries that see any key of the strip from `begin`.
  struct strips {
    std::int64_t first, end;
  };
  strips seeing(std::int64_t begin) const {
    strips out{2, 0};
    for (std::int64_t i = 0; i < 2; ++i) {
      const std::int64_t from = gap(own_.queries, i * strip, strip, begin);
      if (from < strip && columns(own_.queries, i * strip, strip, begin) > from) {
        out.first = std::min(out.first, i);
        out.end = i + 1;
      }
    }
    return out;
  }

  // Adds the contribution of key tile t; returns true if there is one. All scores come first, so
  // that the products of one strip overlap the exponentials of the other.
  bool one_tile(std::int64_t t, bool begun) {
    const std::int64_t at = place(t) * tile;
    const strips by[] = {seeing(t * tile), seeing(t * tile + strip)};
    for (std::int64_t j = 0; j < 2; ++j) {
      const std::int64_t keys = at + j * strip, to = j * strip * tile;
      score(own_.keys + keys * Ds_, own_.q_columns, Ds_, by[j], own_.s + to);
      score(own_.values + keys * Dvs_, own_.d_o_columns, Dvs_, by[j], own_.dp + to);
    }
    for (std::int64_t j = 0; j < 2; ++j) {
      for (std::int64_t i = by[j].first; i < by[j].end; ++i)
        if (a_.p_drop > 0)
          slopes<true>(t * tile, j, i);
        else
          slopes<false>(t * tile, j, i);
      if (by[j].first >= by[j].end)
        continue;
      const std::int64_t keys = at + j * strip, from = j * strip * tile;
      scatter(own_.p + from, own_.d_o_pairs, Dvs_, by[j], own_.dv + keys * Dvs_);
      scatter(own_.ds + from, own_.q_pairs, Ds_, by[j], own_.dk + keys * Ds_);
    }
    return gather(own_.key_columns + at * Ds_, by, begun);
  }

  // to (strip, tile) = rows (strip, Ds) times query columns.
  void score(const bf16* rows, const bf16* columns, std::int64_t Ds, strips by, float* to) {
    for (std::int64_t i = by.first; i < by.end; ++i) {
      next_.prefetch(rows_asked_for);
      multiply_strips({rows, Ds, strip},
                      {columns + i * strip * Ds, tile_numbers, 2 * tile_numbers},
                      Ds / strip,
                      to + i * strip,
                      tile,
                      false);
    }
  }

  // to (strip, Ds) += weights (strip, tile) times query rows in pairs.
  void scatter(const bf16* weights, const bf16* pairs, std::int64_t Ds, strips by, float* to) {
    for (std::int64_t c = 0; c < Ds; c += strip) {
      next_.prefetch(rows_asked_for);
      multiply_strips({weights + by.first * strip, tile, strip},
                      {pairs + (by.first * Ds + c) * strip, tile_numbers, strip * Ds},
                      by.end - by.first,
                      to + c,
                      Ds,
                      true);
    }
  }

  // dq_columns (Ds, tile) (+)= key columns times ds.
  bool gather(const bf16* keys, const strips (&by)[2], bool begun) {
    strips of[2];  // strips of keys that each strip of queries sees
    for (std::int64_t i = 0; i < 2; ++i) {
      const bool sees[] = {by[0].first <= i && i < by[0].end, by[1].first <= i && i < by[1].end};
      of[i] = {sees[0] ? 0 : 1, sees[1] ? 2 : 1};
    }
    if (of[0].first == of[0].end && of[1].first == of[1].end)
      return false;
    for (std::int64_t i = 0; i * strip < own_.queries.rows; ++i)
      for (std::int64_t c = 0; c < Ds_; c += strip)
        multiply_strips({keys + (of[i].first * Ds_ + c) * strip, strip, strip * Ds_},
                        {own_.ds_pairs + (2 * of[i].first + i) * 2 * tile_numbers,
                         tile_numbers,
                         4 * tile_numbers},
                        of[i].end - of[i].first,
                        own_.dq_columns + c * tile + i * strip,
                        tile,
                        begun);
    return true;
  }

  // Turns the scores of key strip j and query strip i into p m, and their gradients before dropout
  // into ds. Hidden pairs get 0 in both.
  template <bool Dropout>
  void slopes(std::int64_t begin, std::int64_t j, std::int64_t i) {
    const query_tile& q = own_.queries;
    const std::int64_t from = begin + j * strip;
    const bool clear
        = *std::max_element(q.hidden + i * strip, q.hidden + (i + 1) * strip) <= from
          && *std::min_element(q.visible + i * strip, q.visible + (i + 1) * strip) >= from + strip;
    if (!clear)
      for (std::int64_t n = i * strip; n < (i + 1) * strip; ++n) {
        own_.hidden[n] = std::int32_t(std::clamp<std::int64_t>(q.hidden[n] - begin, 0, tile));
        own_.visible[n] = std::int32_t(std::clamp<std::int64_t>(q.visible[n] - begin, 0, tile));
      }
    bf16* pairs = own_.ds_pairs + (2 * j + i) * 2 * tile_numbers;
    for (std::int64_t row = 0; row < strip; row += 2, pairs += strip) {
      const __m512i even = slope<Dropout>(j, i, row, clear);
      const __m512i odd = slope<Dropout>(j, i, row + 1, clear);
      // The queries are permuted as in `query_of_column`.
      _mm512_storeu_si512(pairs, _mm512_unpacklo_epi16(even, odd));
      _mm512_storeu_si512(pairs + tile_numbers, _mm512_unpackhi_epi16(even, odd));
    }
  }
  static std::int64_t query_of_column(std::int64_t c) {
    return c / strip * strip + c % 16 / 4 * 8 + c % strip / 16 * 4 + c % 4;
  }

  // Computes one key row of a strip; returns its rounded ds.
  template <bool Dropout>
  HWY_INLINE __m512i slope(std::int64_t j, std::int64_t i, std::int64_t row, bool clear) {
    const std::int64_t key = j * strip + row, at = key * tile + i * strip;
    const vec scale = hn::Set(d, a_.scale), to_power_of_two = hn::Set(d, log2_of_e);
    vec pm[2], ds[2];
#pragma GCC unroll 2
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t query = i * strip + half * width;
      const float* const stats = own_.queries.row + query;
      const vec s = hn::LoadU(d, own_.s + at + half * width);
      // Same rounding as in the forward pass: exact for large scores with small differences.
      const vec away = hn::Sub(hn::Mul(s, scale), hn::LoadU(d, stats));
      vec p = power_of_two(hn::Mul(away, to_power_of_two));
      vec dp = hn::LoadU(d, own_.dp + at + half * width);
      pm[half] = p;
      if constexpr (Dropout) {
        const vec rest = hn::Set(d, 1 / (1 - a_.p_drop));
        const __mmask16 stays = kept_by(query, key);
        pm[half] = vec{_mm512_maskz_mul_ps(stays, p.raw, rest.raw)};
        dp = vec{_mm512_maskz_mul_ps(stays, dp.raw, rest.raw)};
      }
      ds[half] = hn::Mul(p, hn::Sub(dp, hn::LoadU(d, stats + tile)));
      if (!clear) {
        const __mmask16 seen = seen_by(query, key);
        pm[half] = vec{_mm512_maskz_mov_ps(seen, pm[half].raw)};
        ds[half] = vec{_mm512_maskz_mov_ps(seen, ds[half].raw)};
      }
    }
    const __m512i rounded = rounded_pair(ds[0], ds[1]);
    _mm512_storeu_si512(own_.p + at, rounded_pair(pm[0], pm[1]));
    _mm512_storeu_si512(own_.ds + at, rounded);
    return rounded;
  }

  // Mask of the 16 queries that see a key of the current tile.
  HWY_INLINE __mmask16 seen_by(std::int64_t query, std::int64_t key) const {
    const __m512i here = _mm512_set1_epi32(int(key));
    return _mm512_mask_cmplt_epi32_mask(
        _mm512_cmple_epi32_mask(_mm512_loadu_si512(own_.hidden + query), here),
        here,
        _mm512_loadu_si512(own_.visible + query));
  }
  // Mask of the 16 queries for which dropout keeps that key.
  HWY_INLINE __mmask16 kept_by(std::int64_t query, std::int64_t key) const {
    const __m512i here = _mm512_set1_epi64(std::int64_t(std::uint64_t{1} << key));
    const auto low = _mm512_test_epi64_mask(_mm512_loadu_si512(own_.kept + query), here);
    const auto high = _mm512_test_epi64_mask(_mm512_loadu_si512(own_.kept + query + 8), here);
    return __mmask16(low | high << 8);
  }

  // Transposes dq_columns to dq (tile, Ds).
  void turn_dq() {
    alignas(64) float turned[16 * 16];
    for (std::int64_t c = 0; c < in_strips(own_.queries.rows); c += 16)
      for (std::int64_t e = 0; e < Ds_; e += 16) {
        transpose_tile(own_.dq_columns + e * tile + c, 4 * tile, turned, 64);
        for (std::int64_t n = 0; n < 16; ++n)
          hn::StoreU(hn::Load(d, turned + n * 16), d, own_.dq + query_of_column(c + n) * Ds_ + e);
      }
  }

  void write_keys(std::int64_t t) {
    const std::int64_t n = std::min(tile, in_.keys - t * tile), at = place(t) * tile;
    const std::int64_t row = in_.key + t * tile;
    bf16* const dk = op_.dk + row * a_.key_row + which_.g * a_.key_group;
    bf16* const dv = op_.dv + row * a_.value_row + which_.g * a_.value_group;
    write(own_.dk + at * Ds_, Ds_, n, a_.D, a_.scale, dk, a_.key_row);
    write(own_.dv + at * Dvs_, Dvs_, n, a_.Dv, 1, dv, a_.value_row);
  }

  tiled_backward_scratch own_;
  const std::int64_t Ds_, Dvs_;
};

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_POP_ATTRIBUTES
#endif  // TROUPE_TILES

#endif  // per-target include guard
