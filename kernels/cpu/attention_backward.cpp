#include "kernels/cpu/attention_tiles.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"
#include "kernels/cpu/targets.hpp"

#include <functional>
#include <omp.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_backward.cpp"
#include <hwy/foreach_target.h>
// clang-format off: Highway needs this order
#include "kernels/cpu/attention_backward_tiles-inl.hpp"
#include "kernels/cpu/dispatch.hpp"
// clang-format on

#ifndef TROUPE_KERNELS_CPU_ATTENTION_BACKWARD
#define TROUPE_KERNELS_CPU_ATTENTION_BACKWARD
namespace troupe::kernels::cpu {
namespace {

struct backward_scratch {
  query_tile queries;
  float* d_o;            ///< (tile, Dvp)
  float* ds;             ///< (tile, tile)
  float* dq;             ///< (tile, Dp)
  float* key_columns;    ///< (tiles, D, tile)
  float* value_columns;  ///< (tiles, Dv, tile)
  float* keys;           ///< (tiles * tile, Dp)
  float* dk;             ///< (tiles * tile, Dp)
  float* dv;             ///< (tiles * tile, Dvp)

  backward_scratch(piece& from, std::int64_t D, std::int64_t Dv, std::int64_t key_tiles) {
    const std::int64_t Dp = padded(D), Dvp = padded(Dv);
    queries.take(from, Dp);
    d_o = from.take<float>(tile * Dvp);
    ds = from.take<float>(tile * tile);
    dq = from.take<float>(tile * Dp);
    key_columns = from.take<float>(key_tiles * tile * D);
    value_columns = from.take<float>(key_tiles * tile * Dv);
    keys = from.take<float>(key_tiles * tile * Dp);
    dk = from.take<float>(key_tiles * tile * Dp);
    dv = from.take<float>(key_tiles * tile * Dvp);
  }
};

}  // namespace
}  // namespace troupe::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {
namespace {

template <class T>
class backward_part : backward_base<T> {
 public:
  backward_part(const attention_backward<T>& op,
                const part& which,
                const backward_scratch& scratch,
                float* partial_dq,
                float* partial_dbias)
      : backward_base<T>(op, which, partial_dq),
        own_(scratch),
        partial_dbias_(partial_dbias),
        Dp_(padded(a_.D)),
        Dvp_(padded(a_.Dv)) {}

  void run() {
    for (std::int64_t t = which_.first; t < tiles(in_.keys); t += which_.step)
      pack(t);
    for (std::int64_t first = 0; first < in_.queries; first += tile) {
      look(own_.queries, a_, in_, first);
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
    const T* k = k_ + t * tile * a_.key_row;
    pack_columns(k, a_.key_row, n, a_.D, own_.key_columns + at * a_.D);
    const T* v = v_ + t * tile * a_.value_row;
    pack_columns(v, a_.value_row, n, a_.Dv, own_.value_columns + at * a_.Dv);
    pack_rows(k, a_.key_row, n, a_.D, 1, own_.keys + at * Dp_);
    std::fill_n(own_.dk + at * Dp_, tile * Dp_, 0.0f);
    std::fill_n(own_.dv + at * Dvp_, tile * Dvp_, 0.0f);
  }

  void one_head(std::int64_t first, std::int64_t head, std::int64_t of_group) {
    query_tile& q = own_.queries;
    const std::int64_t row = in_.query + first;
    const std::int64_t place_of_q = this->place_of_queries(first, of_group);
    pack_rows(op_.q + place_of_q, a_.query_row, q.rows, a_.D, a_.scale, q.q);
    const T* d_o = op_.d_o + (row * a_.H + head) * a_.Dv;
    const T* o = op_.o + (row * a_.H + head) * a_.Dv;
    pack_rows(d_o, a_.H * a_.Dv, q.rows, a_.Dv, 1, own_.d_o);
    std::copy_n(op_.lse + in_.lse_at(a_.H, head, first), q.rows, q.row);
    for (std::int64_t i = 0; i < q.rows; ++i) {
      const std::int64_t at = i * a_.H * a_.Dv;
      q.row[tile + i] = sum(a_.Dv, [&](std::int64_t c, auto step) HWY_ATTR {
        return hn::Mul(step.load(d_o + at + c), step.load(o + at + c));
      });
    }
    std::fill_n(own_.dq, q.rows * Dp_, 0.0f);
    this->look_ahead(first, q.rows, of_group);

    keeping kept(a_, a_.p_drop > 0 ? a_.sample[which_.s] : 0, head, q.words);
    const std::int64_t hidden_tiles = std::max<std::int64_t>(0, q.start / tile - which_.first);
    const std::int64_t turns = (hidden_tiles + which_.step - 1) / which_.step;
    for (std::int64_t t = which_.first + turns * which_.step; t * tile < q.reach;
         t += which_.step) {
      const std::int64_t j = t * tile, at = place(t) * tile;
      score(q, next_, q.q, own_.key_columns + at * a_.D, a_.D, j, q.s);
      score(q, next_, own_.d_o, own_.value_columns + at * a_.Dv, a_.Dv, j, own_.ds);
      if (op_.bias.values != nullptr)
        head_bias(a_, in_, op_.bias, head).add(q, first, j, q.s);
      if (a_.p_drop > 0)
        slopes<true>(first, j, kept);
      else
        slopes<false>(first, j, kept);
      if (partial_dbias_ != nullptr)
        head_bias(a_, in_, op_.bias, head)
            .add_slopes(q, first, j, own_.ds, partial_dbias_ + of_group * op_.bias.count);
      gather(q, next_, own_.ds, own_.keys + at * Dp_, Dp_, a_.D, j, own_.dq);
      scatter(j, q.s, own_.d_o, a_.Dv, own_.dv + at * Dvp_);
      scatter(j, own_.ds, q.q, a_.D, own_.dk + at * Dp_);
    }
    if (partial_dq_)
      write(own_.dq,
            Dp_,
            q.rows,
            a_.D,
            a_.scale,
            partial_dq_ + (row * a_.H + head) * a_.D,
            a_.H * a_.D);
    else
      write(own_.dq, Dp_, q.rows, a_.D, a_.scale, op_.dq + place_of_q, a_.query_row);
  }

  // Turns scores into p m, and their gradients before dropout into ds. Hidden keys get 0 in both,
  // because the products over a block of rows include them.
  template <bool Dropout>
  void slopes(std::int64_t first, std::int64_t begin, keeping& kept) {
    const query_tile& q = own_.queries;
    const std::int64_t wide = vectors(columns(q, 0, q.rows, begin)) * width;
    const vec rest = hn::Set(d, 1 / (1 - a_.p_drop));
    for (std::int64_t i = 0; i < q.rows; ++i) {
      const std::int64_t hidden = gap(q, i, 1, begin), seen = columns(q, i, 1, begin);
      float* s = q.s + i * tile;
      float* ds = own_.ds + i * tile;
      if (Dropout && seen > 0)
        kept.draw(
            a_.query_position[in_.query + first + i], a_.key_position + in_.key + begin, seen);
      const vec lse = hn::Set(d, q.row[i]), center = hn::Set(d, q.row[tile + i]);
      const auto slope = [&](std::int64_t c, auto step) HWY_ATTR {
        const vec p = exp_below(hn::Sub(hn::LoadU(d, s + c), lse));
        vec pm = p, dp = hn::LoadU(d, ds + c);
        if constexpr (Dropout) {
          const auto stays = kept.lanes(c);
          pm = hn::IfThenElseZero(stays, hn::Mul(p, rest));
          dp = hn::IfThenElseZero(stays, hn::Mul(dp, rest));
        }
        vec slope_of = hn::Mul(p, hn::Sub(dp, center));
        if (c < hidden) {
          const auto lanes = hn::FirstN(d, std::size_t(hidden - c));
          pm = hn::IfThenZeroElse(lanes, pm);
          slope_of = hn::IfThenZeroElse(lanes, slope_of);
        }
        hn::StoreU(step.or_zero(pm), d, s + c);
        hn::StoreU(step.or_zero(slope_of), d, ds + c);
      };
      const auto clear = [=](std::int64_t from, std::int64_t to) HWY_ATTR {
        for (std::int64_t c = from; c < to; c += width) {
          hn::StoreU(hn::Zero(d), d, s + c);
          hn::StoreU(hn::Zero(d), d, ds + c);
        }
      };
      const std::int64_t unseen = std::min(hidden, seen) / width * width;
      clear(0, unseen);
      each(seen - unseen, [&](std::int64_t c, auto step) HWY_ATTR { slope(unseen + c, step); });
      clear(vectors(seen) * width, wide);
    }
  }

  // to (keys, padded D) += transposed weights (tile, tile) times rows (tile, padded D).
  void scatter(
      std::int64_t begin, const float* weights, const float* rows, std::int64_t D, float* to) {
    const query_tile& q = own_.queries;
    const std::int64_t seen = columns(q, 0, q.rows, begin), v = vectors(D), Dp = padded(D);
    std::int64_t first = 0;
    for (std::int64_t j = gap(q, 0, q.rows, begin); j < seen; j += block_rows) {
      const std::int64_t n = std::min<std::int64_t>(block_rows, seen - j);
      while (q.visible[first] <= begin + j)  // terminates: some row sees `seen` keys of this tile
        ++first;
      std::int64_t last = q.rows;
      while (last > first && q.hidden[last - 1] >= begin + j + n)
        --last;
      next_.prefetch();
      small_product<side::columns>(n,
                                   weights + first * tile + j,
                                   tile,
                                   rows + first * Dp,
                                   Dp,
                                   last - first,
                                   to + j * Dp,
                                   Dp,
                                   v,
                                   true);
    }
  }

  void write_keys(std::int64_t t) {
    const std::int64_t n = std::min(tile, in_.keys - t * tile), at = place(t) * tile;
    const std::int64_t row = in_.key + t * tile;
    T* const dk = op_.dk + row * a_.key_row + which_.g * a_.key_group;
    T* const dv = op_.dv + row * a_.value_row + which_.g * a_.value_group;
    write(own_.dk + at * Dp_, Dp_, n, a_.D, 1, dk, a_.key_row);
    write(own_.dv + at * Dvp_, Dvp_, n, a_.Dv, 1, dv, a_.value_row);
  }

  using backward_base<T>::op_, backward_base<T>::a_, backward_base<T>::in_;
  using backward_base<T>::which_, backward_base<T>::next_, backward_base<T>::partial_dq_;
  using backward_base<T>::k_, backward_base<T>::v_;
  backward_scratch own_;
  float* const partial_dbias_;  ///< (heads of the group, bias.count) added to; null: not computed
  const std::int64_t Dp_, Dvp_;
};

template <class T>
void attention_backward_part(const attention_backward<T>& op,
                             const part& which,
                             std::byte* memory,
                             std::int64_t key_tiles,
                             float* partial_dq,
                             float* partial_dbias) {
  piece from(memory);
#ifdef TROUPE_TILES
  if constexpr (std::is_same_v<T, bf16>)
    if (may_go_by_tiles<T>() && op.bias.values == nullptr
        && sequence(op.shape, which.s).queries > few_queries)
      return tiled_backward_part(op, which, {from, op.shape.D, op.shape.Dv, key_tiles}, partial_dq)
          .run();
#endif
  backward_part<T>(op, which, {from, op.shape.D, op.shape.Dv, key_tiles}, partial_dq, partial_dbias)
      .run();
}

}  // namespace
}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {
namespace {

TROUPE_EXPORT(attention_backward_part);

struct backward_plan {
  std::int64_t cuts;         ///< parts per sequence and group
  std::int64_t part_tiles;   ///< key tiles in the largest part
  std::size_t thread_bytes;  ///< scratch per thread, enough for vectors and for tiles
  std::int64_t dq_floats;    ///< size of one partial dq
  std::int64_t partial_dqs;
  std::int64_t turns;  ///< sequences are computed in turn by so many parts
  std::int64_t parts;
  std::int64_t dbias_floats;  ///< size of the dbias of a part; 0: not computed

  // If there are enough sequences and groups for all threads, none is cut. Otherwise each is cut by
  // key tiles. The parts take tiles in turns, because the first keys are seen by the most queries.
  // Each part has its own dq; they are added in order. The first part may use op.dq itself if that
  // is float. With gradients of biases, a part computes several sequences one after the other, so
  // that the memory for its dbias does not grow with their number.
  backward_plan(
      const attention_shape& a, std::int64_t biases, int threads, bool in_place, bool tiled) {
    const longest most = longest_of(a);
    const std::int64_t groups = std::max<std::int64_t>(1, a.S * a.G);
    const std::int64_t all = tiles(most.keys);
    const bool enough = threads == 1 || groups >= 2 * threads;
    cuts = enough ? 1
                  : std::min((2 * threads + groups - 1) / groups, std::max<std::int64_t>(1, all));
    part_tiles = (all + cuts - 1) / cuts;
    piece by_vectors(nullptr), by_tiles(nullptr);
    backward_scratch(by_vectors, a.D, a.Dv, part_tiles);
    if (tiled)
      tiled_backward_scratch(by_tiles, a.D, a.Dv, part_tiles);
    thread_bytes = std::max(by_vectors.used(), by_tiles.used());
    dq_floats = a.S == 0 ? 0 : a.query_starts[a.S] * a.H * a.D;
    partial_dqs = cuts == 1 ? 0 : cuts - (in_place ? 1 : 0);
    turns = biases == 0 ? a.S : std::min(a.S, (4 * threads + a.G - 1) / a.G);
    dbias_floats = a.H / a.G * biases;
    parts = turns * a.G * cuts;
  }
  std::size_t bytes(int threads) const {
    return thread_bytes * std::size_t(threads)
           + sizeof(float) * std::size_t(partial_dqs * dq_floats + parts * dbias_floats);
  }
};

/// True if the first part writes its dq directly to op.dq.
template <class T>
constexpr bool in_place = std::is_same_v<T, float>;

// Adds the partial dq arrays to dq in the order of the parts.
template <class T>
void add_partial(const attention_backward<T>& op,
                 float* partial,
                 const backward_plan& plan,
                 int threads) {
  const attention_shape& a = op.shape;
  const std::int64_t per_group = a.H / a.G;
  split(threads,
        a.query_starts[a.S],
        rows_worth_a_thread(a.H * a.D),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin * a.H; i < end * a.H; ++i) {
            const std::int64_t row = i / a.H, h = i % a.H;
            T* dq = op.dq + row * a.query_row + h / per_group * a.query_group + h % per_group * a.D;
            float* total = partial + i * a.D;
            if constexpr (in_place<T>)
              total = dq;
            for (std::int64_t p = in_place<T> ? 0 : 1; p < plan.partial_dqs; ++p) {
              for (std::int64_t c = 0; c < a.D; ++c)
                total[c] += partial[p * plan.dq_floats + i * a.D + c];
            }
            if constexpr (!in_place<T>)
              std::transform(total, total + a.D, dq, [](float x) { return T(x); });
          }
        });
}

// Adds the dbias of all parts in their order.
template <class T>
void add_partial_dbias(const attention_backward<T>& op,
                       const float* partial,
                       const backward_plan& plan) {
  const std::int64_t floats = plan.dbias_floats;
  std::fill_n(op.dbias, op.shape.H * op.bias.count, 0.0f);
  for (std::int64_t p = 0; p < plan.parts; ++p) {
    float* const to = op.dbias + p / plan.cuts % op.shape.G * floats;
    std::transform(to, to + floats, partial + p * floats, to, std::plus<>());
  }
}

template <class T>
backward_plan plan_of(const attention_backward<T>& op, int threads) {
  if (op.shape.pages != nullptr)
    throw std::logic_error("attention over pages of keys has a forward pass only");
  return {op.shape,
          op.dbias == nullptr ? 0 : op.bias.count,
          threads,
          in_place<T>,
          may_go_by_tiles<T>() && op.bias.values == nullptr};
}

}  // namespace

template <class T>
std::size_t scratch(const attention_backward<T>& op, int threads) {
  return plan_of(op, threads).bytes(threads);
}

template <class T>
void run(const attention_backward<T>& op, const context& in) {
  const attention_shape& a = op.shape;
  const backward_plan plan = plan_of(op, in.threads);
  std::byte* const memory = scratch_array<std::byte>(in, plan.bytes(in.threads));
  float* const partial
      = reinterpret_cast<float*>(memory + plan.thread_bytes * std::size_t(in.threads));
  float* const partial_dbias = partial + plan.partial_dqs * plan.dq_floats;
#pragma omp parallel for num_threads(in.threads) schedule(dynamic, 1)
  for (std::int64_t p = 0; p < plan.parts; ++p) {
    std::byte* const own = memory + plan.thread_bytes * std::size_t(omp_get_thread_num());
    const std::int64_t cut = p % plan.cuts;
    const std::int64_t dq = cut - (plan.cuts - plan.partial_dqs);
    float* const dbias = plan.dbias_floats == 0 ? nullptr : partial_dbias + p * plan.dbias_floats;
    if (dbias != nullptr)
      std::fill_n(dbias, plan.dbias_floats, 0.0f);
    for (std::int64_t s = p / plan.cuts / a.G; s < a.S; s += plan.turns) {
      const part which{s, p / plan.cuts % a.G, cut, plan.cuts};
      TROUPE_DISPATCH(attention_backward_part, T)
      (op, which, own, plan.part_tiles, dq < 0 ? nullptr : partial + dq * plan.dq_floats, dbias);
    }
  }
  if (plan.cuts > 1)
    add_partial(op, partial, plan, in.threads);
  if (op.dbias != nullptr)
    add_partial_dbias(op, partial_dbias, plan);
}

template void run(const attention_backward<float>&, const context&);
template void run(const attention_backward<bf16>&, const context&);
template void run(const attention_backward<f16>&, const context&);
template std::size_t scratch(const attention_backward<float>&, int);
template std::size_t scratch(const attention_backward<bf16>&, int);
template std::size_t scratch(const attention_backward<f16>&, int);

}  // namespace troupe::kernels::cpu
#endif
