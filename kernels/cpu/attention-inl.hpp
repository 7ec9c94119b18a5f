// Steps of attention on a tile of queries and keys, shared by both passes.
//
// Compiled once per instruction set, like vector-inl.hpp.

#if defined(TROUPE_KERNELS_CPU_ATTENTION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_CPU_ATTENTION_INL
#undef TROUPE_KERNELS_CPU_ATTENTION_INL
#else
#define TROUPE_KERNELS_CPU_ATTENTION_INL
#endif

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/philox-inl.hpp"
#include "kernels/cpu/product-inl.hpp"

#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

inline std::int64_t vectors(std::int64_t floats) {
  return (floats + width - 1) / width;
}

/// Rows of a head that will be accessed soon. They are far apart in memory, so the hardware
/// prefetcher misses them. Products prefetch them on the way, a few rows at a time.
class upcoming {
 public:
  void clear() { *this = {}; }

  template <class T>
  void add(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t D) {
    rows_[end_++] = {reinterpret_cast<const char*>(from),
                     stride * std::int64_t{sizeof(T)},
                     rows,
                     D * std::int64_t{sizeof(T)}};
  }

  HWY_INLINE void prefetch(int rows = at_once) {
    for (int n = 0; n < rows && begin_ < end_; ++n) {
      auto& now = rows_[begin_];
      for (std::int64_t c = 0; c < now.bytes; c += 64)
        hwy::Prefetch(now.from + c);
      now.from += now.stride;
      if (--now.rows <= 0)
        ++begin_;
    }
  }

 private:
  static constexpr int at_once = 4;
  struct group {
    const char* from;
    std::int64_t stride, rows, bytes;
  };
  group rows_[4];
  int begin_ = 0, end_ = 0;
};

/// Copies rows of a head into padded rows, scaled by `factor`. The padding is zero.
template <class T>
inline void pack_rows(const T* from,
                      std::int64_t from_stride,
                      std::int64_t rows,
                      std::int64_t D,
                      float factor,
                      float* to) {
  const std::int64_t Dp = padded(D);
  const vec times = hn::Set(d, factor);
  for (std::int64_t i = 0; i < rows; ++i, from += from_stride, to += Dp) {
    each(D, [=](std::int64_t c, auto step) HWY_ATTR {
      hn::StoreU(hn::Mul(step.load(from + c), times), d, to + c);  // the other lanes are zero
    });
    for (std::int64_t c = vectors(D) * width; c < Dp; c += width)
      hn::StoreU(hn::Zero(d), d, to + c);
  }
}

/// Copies up to `tile` rows of a head as columns of `to` (D, tile). The remaining columns are zero.
template <class T>
inline void pack_columns(
    const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t D, float* to) {
  transpose(from, from_stride, rows, D, to, tile);
  if (rows < tile)
    for (std::int64_t c = 0; c < D; ++c)
      std::fill(to + c * tile + rows, to + (c + 1) * tile, 0.0f);
}

/// Fills the counts of `t` for the query rows of the sequence that begin at `first`.
inline void look(query_tile& t, const attention_shape& a, const sequence& in, std::int64_t first) {
  const std::int32_t* position = a.key_position + in.key;
  t.rows = std::min(tile, in.queries - first);
  t.start = in.keys;
  t.reach = 0;
  std::int64_t seen = 0;
  for (std::int64_t i = 0; i < t.rows; ++i) {
    if (a.causal) {
      const std::int32_t now = a.query_position[in.query + first + i];
      // In the usual order of rows, each row sees one more key than the previous one.
      if (seen < in.keys && position[seen] <= now)
        ++seen;
      const bool found
          = (seen == in.keys || position[seen] > now) && (seen == 0 || position[seen - 1] <= now);
      if (!found)
        seen = std::upper_bound(position, position + in.keys, now) - position;
    } else {
      seen = in.keys;
    }
    t.visible[i] = seen;
    t.hidden[i] = 0;
    if (a.causal && a.window >= 0) {
      const std::int32_t now = a.query_position[in.query + first + i];
      t.hidden[i]
          = std::lower_bound(position, position + seen, attention_horizon(a, now)) - position;
      if (t.hidden[i] == seen) {  // sees no key: must not widen the tile's range
        t.hidden[i] = in.keys;
        t.visible[i] = 0;
      }
    }
    t.start = std::min(t.start, t.hidden[i]);
    t.reach = std::max(t.reach, t.visible[i]);
  }
}

/// Number of leading keys, from `begin`, that are hidden from all rows [first, first + n); at most
/// a tile.
inline std::int64_t gap(const query_tile& t,
                        std::int64_t first,
                        std::int64_t n,
                        std::int64_t begin) {
  const std::int64_t least = *std::min_element(t.hidden + first, t.hidden + first + n);
  return std::clamp<std::int64_t>(least - begin, 0, tile);
}

/// Number of keys, from `begin`, up to the last visible to any row [first, first + n); at most a
/// tile.
inline std::int64_t columns(const query_tile& t,
                            std::int64_t first,
                            std::int64_t n,
                            std::int64_t begin) {
  std::int64_t most = 0;
  for (std::int64_t i = first; i < first + n; ++i)
    most = std::max(most, t.visible[i]);
  return std::clamp<std::int64_t>(most - begin, 0, tile);
}

/// to (tile, tile) = from (tile, Dp) times keys (D, tile), for visible keys from `begin`.
inline void score(const query_tile& t,
                  upcoming& next,
                  const float* from,
                  const float* keys,
                  std::int64_t D,
                  std::int64_t begin,
                  float* to) {
  const std::int64_t Dp = padded(D);
  for (std::int64_t i = 0; i < t.rows; i += block_rows) {
    const std::int64_t n = std::min<std::int64_t>(block_rows, t.rows - i);
    const std::int64_t c = gap(t, i, n, begin) / width * width;
    const std::int64_t v = vectors(columns(t, i, n, begin) - c);
    next.prefetch();
    if (v > 0)
      small_product<side::rows>(
          n, from + i * Dp, Dp, keys + c, tile, D, to + i * tile + c, tile, v, false);
  }
}

/// to (tile, Dp) += weights (tile, tile) times rows (keys, Dp), for visible keys from `begin`.
inline void gather(const query_tile& t,
                   upcoming& next,
                   const float* weights,
                   const float* rows,
                   std::int64_t stride,
                   std::int64_t D,
                   std::int64_t begin,
                   float* to) {
  const std::int64_t Dp = padded(D), v = vectors(D);
  for (std::int64_t i = 0; i < t.rows; i += block_rows) {
    const std::int64_t n = std::min<std::int64_t>(block_rows, t.rows - i);
    const std::int64_t j = gap(t, i, n, begin), depth = columns(t, i, n, begin) - j;
    next.prefetch();
    if (depth > 0)
      small_product<side::rows>(n,
                                weights + i * tile + j,
                                tile,
                                rows + j * stride,
                                stride,
                                depth,
                                to + i * Dp,
                                Dp,
                                v,
                                true);
  }
}

/// Writes rows of a head: `from` scaled by `factor`.
template <class T>
inline void write(const float* from,
                  std::int64_t from_stride,
                  std::int64_t rows,
                  std::int64_t D,
                  float factor,
                  T* to,
                  std::int64_t stride) {
  const vec times = hn::Set(d, factor);
  for (std::int64_t i = 0; i < rows; ++i, from += from_stride, to += stride) {
    each(D, [=](std::int64_t c, auto step) HWY_ATTR {
      step.store(hn::Mul(hn::LoadU(d, from + c), times), to + c);
    });
  }
}

/// Writes lse and outputs of the query rows that begin at `first`. Inputs: row maxima in `q`,
/// `sums` (tile, width) of probabilities and unnormalised outputs `o` (tile, o_stride).
template <class T>
inline void finish(const attention_forward<T>& op,
                   const sequence& in,
                   std::int64_t first,
                   std::int64_t head,
                   query_tile& q,
                   const float* sums,
                   const float* o,
                   std::int64_t o_stride) {
  const attention_shape& a = op.shape;
  const float rest = 1 / (1 - a.p_drop);
  for (std::int64_t i = 0; i < q.rows; ++i)
    q.row[tile + i] = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, sums + i * width)));
  for (std::int64_t i = 0; i < q.rows; i += width) {
    // Highway's log handles neither 0 (a row without keys) nor NaN. Both cases take their result
    // from the maximum (-infinity) or the sum (NaN).
    const vec total = hn::LoadU(d, q.row + tile + i), top = hn::LoadU(d, q.row + i);
    const auto none = hn::Eq(total, hn::Zero(d));
    const vec lse = hn::IfThenElse(none, top, hn::Add(top, hn::Log(d, total)));
    hn::StoreU(hn::IfThenElse(hn::IsNaN(total), total, lse), d, q.row + i);
    hn::StoreU(hn::IfThenZeroElse(none, hn::Div(hn::Set(d, rest), total)), d, q.row + tile + i);
  }
  const std::int64_t row = in.query + first;
  std::copy_n(q.row, q.rows, op.lse + in.lse_at(a.H, head, first));
  for (std::int64_t i = 0; i < q.rows; ++i) {
    const std::int64_t at = (row + i) * a.H + head;
    const float* from = o + i * o_stride;
    T* to = op.o + at * a.Dv;
    const vec times = hn::Set(d, q.row[tile + i]);
    each(a.Dv, [=](std::int64_t c, auto step) HWY_ATTR {
      step.store(hn::Mul(hn::LoadU(d, from + c), times), to + c);
    });
  }
}

/// to += x, n numbers.
inline void add_row(const float* x, std::int64_t n, float* to) {
  each(n, [=](std::int64_t c, auto step) HWY_ATTR {
    step.store(hn::Add(step.load(to + c), step.load(x + c)), to + c);
  });
}

/// The biases of one head, for a sequence.
class head_bias {
 public:
  template <class T>
  head_bias(const attention_shape& a,
            const sequence& in,
            const score_bias<T>& of,
            std::int64_t head)
      : keys_(a.key_position + in.key),
        queries_(a.query_position + in.query),
        values_(of.values + head * of.count),
        first_(of.first) {}

  /// Adds to the scores (tile, tile) of the visible keys from `begin`. `first`: the tile's first
  /// query row of the sequence.
  void add(const query_tile& t, std::int64_t first, std::int64_t begin, float* s) const {
    each_run(
        t, first, begin, [=, this](std::int64_t at, std::int64_t place, std::int64_t n) HWY_ATTR {
          add_row(values_ + place, n, s + at);
        });
  }
  /// Adds ds (tile, tile) to the gradients of the biases.
  void add_slopes(const query_tile& t,
                  std::int64_t first,
                  std::int64_t begin,
                  const float* ds,
                  float* to) const {
    each_run(t, first, begin, [=](std::int64_t at, std::int64_t place, std::int64_t n) HWY_ATTR {
      add_row(ds + at, n, to + place);
    });
  }

 private:
  // Calls visit(place in the tile, place in the biases, n) for visible keys at n ascending
  // distances, row by row.
  template <class Visit>
  HWY_INLINE void each_run(const query_tile& t,
                           std::int64_t first,
                           std::int64_t begin,
                           const Visit& visit) const {
    const std::int32_t* const keys = keys_ + begin;
    for (std::int64_t i = 0; i < t.rows; ++i) {
      const std::int64_t from = gap(t, i, 1, begin), end = columns(t, i, 1, begin);
      const std::int64_t none = queries_[first + i] + std::int64_t{first_};
      if (from < end && keys[end - 1] - keys[from] == end - 1 - from) {  // they are consecutive
        visit(i * tile + from, keys[from] - none, end - from);
        continue;
      }
      for (std::int64_t j = from; j < end; ++j)
        visit(i * tile + j, keys[j] - none, 1);
    }
  }

  const std::int32_t *keys_, *queries_;
  const float* values_;
  std::int32_t first_;
};

/// Common members of a part of a pass, for the vector and the tile version.
template <class Op, class T>
class pass_base {
 protected:
  pass_base(const Op& op, const part& which)
      : op_(op),
        a_(op.shape),
        in_(op.shape, which.s),
        which_(which),
        k_(op.k + in_.key * a_.key_row + which.g * a_.key_group),
        v_(op.v + in_.key * a_.value_row + which.g * a_.value_group) {}

  std::int64_t place_of_queries(std::int64_t first, std::int64_t of_group) const {
    return (in_.query + first) * a_.query_row + which_.g * a_.query_group + of_group * a_.D;
  }

  const Op& op_;
  const attention_shape& a_;
  const sequence in_;
  const part which_;
  upcoming next_;
  const T* const k_;
  const T* const v_;
};

template <class T>
class forward_base : protected pass_base<attention_forward<T>, T> {
 protected:
  using base = pass_base<attention_forward<T>, T>;
  using base::base;
  using base::op_, base::a_, base::in_, base::which_, base::next_;

  /// Key and value j of the sequence. The others of its page follow.
  const T* keys_at(std::int64_t j) const {
    return op_.k + key_place(a_, in_.key + j) * a_.key_row + which_.g * a_.key_group;
  }
  const T* values_at(std::int64_t j) const {
    return op_.v + key_place(a_, in_.key + j) * a_.value_row + which_.g * a_.value_group;
  }
  const T* queries(std::int64_t first, std::int64_t of_group) const {
    return op_.q + this->place_of_queries(first, of_group);
  }

  /// Calls copy(t) for the blocks [first, end) of keys and values that are not copied yet. Blocks
  /// between two windows are skipped.
  template <class Copy>
  void copy_missing(std::int64_t first, std::int64_t end, const Copy& copy) {
    if (first > copied_end_ || end < copied_first_)
      copied_first_ = copied_end_ = first;
    while (copied_first_ > first)
      copy(--copied_first_);
    while (copied_end_ < end)
      copy(copied_end_++);
  }
  /// The first block of keys that is not copied yet.
  std::int64_t copied_end() const { return copied_end_; }

  /// Schedules prefetches of the outputs of this tile of queries and of the inputs of the next one.
  /// Keys from `key` on are not copied yet.
  void look_ahead(std::int64_t first,
                  std::int64_t rows,
                  std::int64_t head,
                  std::int64_t of_group,
                  std::int64_t key) {
    const std::int64_t next = first + which_.step * tile;
    next_.clear();
    next_.add(op_.o + ((in_.query + first) * a_.H + head) * a_.Dv, a_.H * a_.Dv, rows, a_.Dv);
    if (of_group + 1 < a_.H / a_.G) {
      next_.add(queries(first, of_group + 1), a_.query_row, rows, a_.D);
    } else if (next < in_.queries) {
      next_.add(queries(next, 0), a_.query_row, std::min(tile, in_.queries - next), a_.D);
      const std::int64_t keys = std::min(tile, in_.keys - key);
      if (keys > 0) {
        next_.add(keys_at(key), a_.key_row, keys, a_.D);
        next_.add(values_at(key), a_.value_row, keys, a_.Dv);
      }
    }
  }

 private:
  std::int64_t copied_first_ = 0, copied_end_ = 0;
};

template <class T>
class backward_base : protected pass_base<attention_backward<T>, T> {
 protected:
  using base = pass_base<attention_backward<T>, T>;
  using base::op_, base::a_, base::in_, base::which_, base::next_, base::k_, base::v_;
  using base::place_of_queries;

  /// Writes dq to `partial_dq` (query rows, H, D), or to op.dq if null.
  backward_base(const attention_backward<T>& op, const part& which, float* partial_dq)
      : base(op, which), partial_dq_(partial_dq) {}

  /// Schedules prefetches of the outputs of this tile of queries and of the inputs of the next one.
  void look_ahead(std::int64_t first, std::int64_t rows, std::int64_t of_group) {
    std::int64_t next = first, ahead = of_group + 1, next_rows = rows;
    if (ahead == a_.H / a_.G) {
      next += tile, ahead = 0;
      next_rows = std::min(tile, in_.queries - next);
    }
    next_.clear();
    if (next_rows > 0) {
      const std::int64_t at
          = ((in_.query + next) * a_.H + which_.g * (a_.H / a_.G) + ahead) * a_.Dv;
      next_.add(op_.q + place_of_queries(next, ahead), a_.query_row, next_rows, a_.D);
      next_.add(op_.d_o + at, a_.H * a_.Dv, next_rows, a_.Dv);
      next_.add(op_.o + at, a_.H * a_.Dv, next_rows, a_.Dv);
    }
    if (!partial_dq_)
      next_.add(op_.dq + place_of_queries(first, of_group), a_.query_row, rows, a_.D);
  }

  float* const partial_dq_;
};

/// Draws which keys dropout keeps for a query row.
class keeping {
 public:
  keeping(const attention_shape& a, std::uint64_t sample, std::int64_t head, std::uint32_t* words)
      : key_(a.key),
        sample_(sample),
        head_(a.first_head + head),
        words_(words),
        threshold_(drop_threshold(a.p_drop)) {}

  /// Draws for the query at position `query` and n keys, at most a tile.
  HWY_INLINE void draw(std::int32_t query, const std::int32_t* keys, std::int64_t n) {
    const std::uint64_t stream = attention_stream(sample_, query);
    const std::int32_t shift = keys[0] & 3;
    if (keys[n - 1] - keys[0] == n - 1) {  // positions ascend, so they are consecutive
      const std::uint64_t block = attention_word(head_, keys[0]) / 4;
      philox_words(words_, n + shift, key_, stream, block);
      at_ = words_ + shift;
    } else {
      for (std::int64_t j = 0; j < n; ++j)
        words_[j] = philox_word(key_, stream, attention_word(head_, keys[j]));
      at_ = words_;
    }
  }

  /// Mask of the lanes that keep the keys c, c + 1, ....
  HWY_INLINE hn::Mask<tag> lanes(std::int64_t c) const {
    const hn::RebindToUnsigned<tag> du;
    const auto dropped = hn::Lt(hn::LoadU(du, at_ + c), hn::Set(du, threshold_));
    return hn::RebindMask(d, hn::Not(dropped));
  }

 private:
  std::uint64_t key_, sample_;
  std::int64_t head_;
  std::uint32_t* words_;
  const std::uint32_t* at_ = nullptr;
  std::uint32_t threshold_;
};

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
