#include "kernels/cpu/attention_tiles.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <limits>
#include <omp.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_forward.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/attention_forward_tiles-inl.hpp"
#include "kernels/cpu/dispatch.hpp"
// clang-format on

#ifndef TROUPE_KERNELS_CPU_ATTENTION_FORWARD
#define TROUPE_KERNELS_CPU_ATTENTION_FORWARD
namespace troupe::kernels::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct forward_scratch {
  query_tile queries;
  float* o;        ///< (tile, Dvp)
  float* before;   ///< (tile) maxima before the current key tile
  float* sums;     ///< (tile, width of a vector) sums of probabilities
  float* columns;  ///< (copied tiles, D, tile) transposed keys
  float* values;   ///< (copied tiles * tile, Dvp), at least one tile

  forward_scratch(piece& from, std::int64_t D, std::int64_t Dv, std::int64_t copied_keys) {
    const std::int64_t Dvp = padded(Dv), copied = tiles(copied_keys) * tile;
    queries.take(from, padded(D));
    o = from.take<float>(tile * Dvp);
    before = from.take<float>(tile);
    sums = from.take<float>(tile * 16);
    columns = from.take<float>(copied * D);
    values = from.take<float>(std::max(copied, tile) * Dvp);
  }
};

}  // namespace
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
class forward_part : forward_base<T> {
 public:
  forward_part(const attention_forward<T>& op, const part& which, const forward_scratch& scratch)
      : forward_base<T>(op, which),
        own_(scratch),
        few_(reads_in_place(a_, in_)),
        Dp_(padded(a_.D)),
        Dvp_(padded(a_.Dv)) {}

  void run() {
    for (std::int64_t t = which_.first; t < tiles(in_.queries); t += which_.step) {
      look(own_.queries, a_, in_, t * tile);
      if (!few_ && own_.queries.start < own_.queries.reach)
        this->copy_missing(own_.queries.start / tile,
                           tiles(own_.queries.reach),
                           [this](std::int64_t keys) HWY_ATTR { pack(keys); });
      for (std::int64_t h = 0; h < a_.H / a_.G; ++h)
        one_head(t * tile, which_.g * (a_.H / a_.G) + h, h);
    }
  }

 private:
  void pack(std::int64_t t) {
    const std::int64_t j = t * tile, n = std::min(tile, in_.keys - j);
    pack_columns(this->keys_at(j), a_.key_row, n, a_.D, own_.columns + j * a_.D);
    pack_rows(this->values_at(j), a_.value_row, n, a_.Dv, 1, own_.values + j * Dvp_);
  }

  void one_head(std::int64_t first, std::int64_t head, std::int64_t of_group) {
    query_tile& q = own_.queries;
    pack_rows(this->queries(first, of_group), a_.query_row, q.rows, a_.D, a_.scale, q.q);
    if (!few_)
      this->look_ahead(first, q.rows, head, of_group, this->copied_end() * tile);
    std::fill_n(own_.o, q.rows * Dvp_, 0.0f);
    std::fill_n(q.row, tile, -infinity);
    std::fill_n(own_.sums, q.rows * width, 0.0f);

    keeping kept(a_, a_.p_drop > 0 ? a_.sample[which_.s] : 0, head, q.words);
    for (std::int64_t j = q.start / tile * tile; j < q.reach; j += tile) {
      if (few_)
        score_in_place(j);
      else
        score(q, next_, q.q, own_.columns + j * a_.D, a_.D, j, q.s);
      if (op_.bias.values != nullptr)
        head_bias(a_, in_, op_.bias, head).add(q, first, j, q.s);
      if (a_.p_drop > 0)
        soften<true>(first, j, kept);
      else
        soften<false>(first, j, kept);
      if (few_)
        gather_in_place(j);
      else
        gather(q, next_, q.s, own_.values + j * Dvp_, Dvp_, a_.Dv, j, own_.o);
    }
    finish(op_, in_, first, head, q, own_.sums, own_.o, Dvp_);
  }

  // Computes scores one key row at a time, for the few queries of a decoding step.
  void score_in_place(std::int64_t begin) {
    const query_tile& q = own_.queries;
    const T* const keys = this->keys_at(begin);
    for (std::int64_t i = 0; i < q.rows; ++i) {
      const float* row = q.q + i * Dp_;
      const std::int64_t seen = columns(q, i, 1, begin);
      for (std::int64_t j = gap(q, i, 1, begin); j < seen; ++j) {
        const T* key = keys + j * a_.key_row;
        q.s[i * tile + j] = sum(a_.D, [&](std::int64_t c, auto step) HWY_ATTR {
          return hn::Mul(step.load(row + c), step.load(key + c));
        });
      }
    }
  }

  void gather_in_place(std::int64_t begin) {
    const T* rows = this->values_at(begin);
    if constexpr (std::is_same_v<T, float>) {
      if (a_.Dv % width == 0)  // otherwise a vector would read beyond the row
        return gather(
            own_.queries, next_, own_.queries.s, rows, a_.value_row, a_.Dv, begin, own_.o);
    }
    const std::int64_t hidden = gap(own_.queries, 0, own_.queries.rows, begin);
    const std::int64_t seen = columns(own_.queries, 0, own_.queries.rows, begin);
    pack_rows(rows + hidden * a_.value_row,
              a_.value_row,
              seen - hidden,
              a_.Dv,
              1,
              own_.values + hidden * Dvp_);
    gather(own_.queries, next_, own_.queries.s, own_.values, Dvp_, a_.Dv, begin, own_.o);
  }

  // Turns the scores of the keys from `begin` into probabilities relative to the running maximum,
  // and rescales earlier sums if the maximum rose. All maxima come before all exponentials, so no
  // row waits for the maximum of another.
  template <bool Dropout>
  void soften(std::int64_t first, std::int64_t begin, keeping& kept) {
    query_tile& q = own_.queries;
    for (std::int64_t b = 0; b < q.rows; b += block_rows) {
      const std::int64_t n = std::min<std::int64_t>(block_rows, q.rows - b);
      const std::int64_t wide = vectors(columns(q, b, n, begin)) * width;
      for (std::int64_t i = b; i < b + n; ++i)
        raise_maximum(i, begin, wide);
    }
    shrink();
    for (std::int64_t b = 0; b < q.rows; b += block_rows) {
      const std::int64_t n = std::min<std::int64_t>(block_rows, q.rows - b);
      const std::int64_t wide = vectors(columns(q, b, n, begin)) * width;
      for (std::int64_t i = b; i < b + n; ++i) {
        float* const s = q.s + i * tile;
        if (std::min(q.visible[i], begin + tile)
            <= q.hidden[i]) {  // no visible key so far, so no maximum
          std::fill_n(s, wide, 0.0f);
          continue;
        }
        if constexpr (Dropout)
          if (const std::int64_t seen = columns(q, i, 1, begin); seen > 0)
            kept.draw(
                a_.query_position[in_.query + first + i], a_.key_position + in_.key + begin, seen);
        const vec top = hn::Set(d, q.row[i]);
        vec added = hn::Zero(d);
        for (std::int64_t c = 0; c < wide; c += width) {
          vec p = exp_below(hn::Sub(hn::LoadU(d, s + c), top));
          added = hn::Add(added, p);
          if constexpr (Dropout)
            p = hn::IfThenElseZero(kept.lanes(c), p);
          hn::StoreU(p, d, s + c);
        }
        float* const sums = own_.sums + i * width;
        hn::StoreU(hn::Add(hn::LoadU(d, sums), added), d, sums);
      }
    }
  }

  // Updates the maximum of row i with `wide` scores of a tile. Scores of hidden keys become
  // -infinity.
  void raise_maximum(std::int64_t i, std::int64_t begin, std::int64_t wide) {
    query_tile& q = own_.queries;
    const std::int64_t hidden = gap(q, i, 1, begin), seen = columns(q, i, 1, begin);
    float* const s = q.s + i * tile;
    if (hidden > 0)
      std::fill_n(s, std::min(hidden, wide), -infinity);
    if (seen < wide)
      std::fill_n(s + seen, wide - seen, -infinity);
    vec top = hn::Set(d, -infinity);
    for (std::int64_t c = 0; c < wide; c += width)
      top = hn::Max(hn::LoadU(d, s + c), top);  // with this operand order, NaN scores are ignored
    own_.before[i] = q.row[i];
    q.row[i] = hn::GetLane(hn::Max(hn::Set(d, q.row[i]), hn::MaxOfLanes(d, top)));
  }

  // Rescales sums and outputs of the rows with a new maximum.
  void shrink() {
    const query_tile& q = own_.queries;
    for (std::int64_t i = 0; i < q.rows; ++i) {
      if (q.row[i] == own_.before[i] || own_.before[i] == -infinity)
        continue;
      const vec times = exp_below(hn::Set(d, own_.before[i] - q.row[i]));
      float* const sums = own_.sums + i * width;
      hn::StoreU(hn::Mul(hn::LoadU(d, sums), times), d, sums);
      float* const o = own_.o + i * Dvp_;
      for (std::int64_t c = 0; c < Dvp_; c += width)
        hn::StoreU(hn::Mul(hn::LoadU(d, o + c), times), d, o + c);
    }
  }

  using forward_base<T>::op_, forward_base<T>::a_, forward_base<T>::in_, forward_base<T>::which_;
  using forward_base<T>::next_;
  forward_scratch own_;
  const bool few_;
  const std::int64_t Dp_, Dvp_;
};

template <class T>
void attention_forward_part(const attention_forward<T>& op,
                            const part& which,
                            std::byte* memory,
                            std::int64_t copied_keys) {
  piece from(memory);
#ifdef TROUPE_TILES
  if constexpr (std::is_same_v<T, bf16>)
    if (may_go_by_tiles<T>() && op.shape.scale > 0 && op.bias.values == nullptr
        && !reads_in_place(op.shape, sequence(op.shape, which.s)))
      return tiled_forward_part(op, which, {from, op.shape.D, op.shape.Dv, copied_keys}).run();
#endif
  forward_part<T>(op, which, {from, op.shape.D, op.shape.Dv, copied_keys}).run();
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(attention_forward_part);

struct forward_plan {
  std::int64_t cuts;         ///< parts per sequence and group
  std::int64_t copied_keys;  ///< upper limit per thread
  std::size_t thread_bytes;  ///< scratch per thread, enough for vectors and for tiles

  // If there are enough sequences and groups for all threads, none is cut. Otherwise each is cut by
  // queries, and every part copies the keys that it needs. The bits of a row do not depend on the
  // cut.
  forward_plan(const attention_shape& a, int threads, bool tiled) {
    const longest most = longest_of(a);
    const std::int64_t groups = std::max<std::int64_t>(1, a.S * a.G);
    const std::int64_t wanted = threads == 1 ? 1 : (4 * threads + groups - 1) / groups;
    cuts = std::min(wanted, tiles(most.queries));
    copied_keys = most.copied_keys;
    piece by_vectors(nullptr), by_tiles(nullptr);
    forward_scratch(by_vectors, a.D, a.Dv, copied_keys);
    if (tiled)
      tiled_forward_scratch(by_tiles, a.D, a.Dv, copied_keys);
    thread_bytes = std::max(by_vectors.used(), by_tiles.used());
  }
};

}  // namespace

template <class T>
std::size_t scratch(const attention_forward<T>& op, int threads) {
  return forward_plan(op.shape, threads, may_go_by_tiles<T>()).thread_bytes * std::size_t(threads);
}

template <class T>
void run(const attention_forward<T>& op, const context& in) {
  const attention_shape& a = op.shape;
  const forward_plan plan(a, in.threads, may_go_by_tiles<T>());
  std::byte* const memory
      = scratch_array<std::byte>(in, plan.thread_bytes * std::size_t(in.threads));
#pragma omp parallel for num_threads(in.threads) schedule(dynamic, 1)
  for (std::int64_t p = 0; p < a.S * a.G * plan.cuts; ++p) {
    std::byte* const own = memory + plan.thread_bytes * std::size_t(omp_get_thread_num());
    const part which{p / plan.cuts / a.G, p / plan.cuts % a.G, p % plan.cuts, plan.cuts};
    TROUPE_DISPATCH(attention_forward_part, T)(op, which, own, plan.copied_keys);
  }
}

template void run(const attention_forward<float>&, const context&);
template void run(const attention_forward<bf16>&, const context&);
template void run(const attention_forward<f16>&, const context&);
template std::size_t scratch(const attention_forward<float>&, int);
template std::size_t scratch(const attention_forward<bf16>&, int);
template std::size_t scratch(const attention_forward<f16>&, int);

}  // namespace troupe::kernels::cpu
#endif
