#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/run.hpp"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

// Two kernels recompute the probabilities, so that each sum has one owner and needs no atomics. One
// has a tile of keys and iterates over the queries, for dk and dv. The other has a tile of queries
// and iterates over the keys, for dq. A third kernel runs first and computes what both need per
// row.

/// Scratch: delta of each row and head, the position range of each query tile, and its gradients of
/// biases.
struct prepared {
  float* center;  ///< (query rows, H)
  span* spans;    ///< (tile numbers)
  float* dbias;   ///< (tile numbers, H, bias.count); null: not computed
};

constexpr int prepare_threads = 256;

template <class T>
__global__ void __launch_bounds__(prepare_threads)
    prepare(const attention_backward<T> op, const attention_work a, const prepared to) {
  const tile_place at = find_tile(a.query_starts, a.S, int(blockIdx.x));
  const int h = int(blockIdx.y), lane = int(threadIdx.x) % warp;
  if (at.rows <= 0)
    return;
  if (h == 0 && threadIdx.x < warp) {
    const span positions = span_of(a.query_position + at.first, at.rows);
    if (threadIdx.x == 0)
      to.spans[blockIdx.x] = positions;
  }
  for (int r = int(threadIdx.x) / warp; r < at.rows; r += prepare_threads / warp) {
    const std::int64_t place = std::int64_t{at.first + r} * a.H + h;
    const T *d_o = op.d_o + place * a.Dv, *o = op.o + place * a.Dv;
    constexpr int W = wide<T>;
    float sum = 0;
    for (int d = lane * W; d < a.Dv; d += warp * W) {
      if (a.vectors) {
        const auto x = load<T, W>(d_o + d), y = load<T, W>(o + d);
#pragma unroll
        for (int w = 0; w < W; ++w)
          sum += to_float(x.x[w]) * to_float(y.x[w]);
      } else {
        for (int w = 0; w < W && d + w < a.Dv; ++w)
          sum += to_float(d_o[d + w]) * to_float(o[d + w]);
      }
    }
    sum = warp_sum(sum);
    if (lane == 0)
      to.center[place] = sum;
  }
}

struct backward_tiles : shared_tiles {
  float lse2[tile];  ///< log-sum-exp of the queries, to base 2
  float center[tile];
};

/// Loads positions, log-sum-exp and delta (of head h) of the queries of a tile of sequence s. Only
/// the first 64 threads take part.
template <class T>
__device__ __forceinline__ void load_queries(const attention_backward<T>& op,
                                             const attention_work& a,
                                             const prepared& from,
                                             backward_tiles& to,
                                             int s,
                                             int first,
                                             int rows,
                                             int h) {
  const int i = int(threadIdx.x);
  if (i >= tile)
    return;
  const bool there = i < rows;
  const std::int64_t place = std::int64_t{first + i} * a.H + h;
  to.query_position[i] = there ? a.query_position[first + i] : 0;
  to.lse2[i] = there ? op.lse[lse_of(a, s, h, first + i)] * log2_e : 0.0F;
  to.center[i] = there ? from.center[place] : 0.0F;
}

template <int Rows>
constexpr int threads_of = tile / Rows * 16;

// --- dk and dv: a thread's rows are keys, its columns are queries -------------------------------

template <class T, int Dp, int Rows>
__global__ void __launch_bounds__(threads_of<Rows>, Dp == 256 ? 1 : 2)
    backward_keys(const attention_backward<T> op, const attention_work a, const prepared from) {
  __shared__ backward_tiles own;
  const tile_place at = find_tile(a.key_starts, a.S, int(blockIdx.x));
  if (at.rows <= 0)
    return;
  const int g = int(blockIdx.y), per_group = int(a.H / a.G), first_key = a.key_starts[at.s];
  const int first_query = a.query_starts[at.s], queries = a.query_starts[at.s + 1] - first_query;
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const span key_span = keys.span_of_tile(at.number);
  const span* const query_spans = from.spans + first_query / tile + at.s;
  const int query_tiles = (queries + tile - 1) / tile;
  const int D = int(a.D), Dv = int(a.Dv);
  const std::int64_t key_place = at.first * a.key_row + g * a.key_group;
  const std::int64_t value_place = at.first * a.value_row + g * a.value_group;
  const head_rows<const T> k{op.k + key_place, a.key_row, at.rows, D};
  const head_rows<const T> v{op.v + value_place, a.value_row, at.rows, Dv};
  const int first_row = int(threadIdx.x) / 16 * Rows, first_column = int(threadIdx.x) % 16 * 4;

  load_keys(keys, at.number, own);
  float dk[Rows][Dp / 16] = {}, dv[Rows][Dp / 16] = {};

  const auto add_tile = [&](int t, int member) {
    const int h = g * per_group + member, first = first_query + t * tile;
    const int n = min(tile, queries - t * tile);
    const head_rows<const T> q{
        op.q + first * a.query_row + g * a.query_group + member * a.D, a.query_row, n, D};
    const head_rows<const T> d_o{
        op.d_o + (std::int64_t{first} * a.H + h) * a.Dv, a.H * a.Dv, n, Dv};
    load_queries(op, a, from, own, at.s, first, n, h);
    unsigned kept = ~0U;
    if (a.p_drop > 0) {
      __syncthreads();
      kept = 0;
#pragma unroll 1
      for (int c = 0; c < 4; ++c)
        kept |= kept_keys(a,
                          a.sample[at.s],
                          h,
                          own.query_position[first_column + c],
                          own.key_position + first_row,
                          Rows)
                << (Rows * c);
    }
    unsigned unseen = 0;
    {
      float p[Rows][4];
      score<Rows, T>(a.vectors, p, own.hand, k, q);
      const bool whole = at.rows == tile && n == tile && all_seen(a, query_spans[t], key_span);
#pragma unroll
      for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int query = first_column + c, key = first_row + r;
          const bool hidden = !whole
                              && (query >= n || key >= at.rows
                                  || !seen(a, own.query_position[query], own.key_position[key]));
          unseen |= unsigned(hidden) << (Rows * c + r);
          float own_bias = 0;
          if (op.bias.values != nullptr && !hidden)
            own_bias = bias2_of(op.bias, h, own.query_position[query], own.key_position[key]);
          p[r][c] = hidden ? 0.0F : exp2f(p[r][c] * a.scale2 + own_bias - own.lse2[query]);
        }
      // Kept in shared memory during the next product: for D = 128 there are too few registers.
      store_weights(own.weights, p);
    }
    float ds[Rows][4];
    score<Rows, T>(a.vectors, ds, own.hand, v, d_o);
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
      for (int r = 0; r < Rows; r += 4) {
        float* const mine = own.weights + weight_place(first_column + c, first_row + r);
        auto p = load<float, 4>(mine);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int bit = Rows * c + r + i;
          const float m = kept >> bit & 1 ? a.rest : 0.0F;
          const float slope = p.x[i] * (m * ds[r + i][c] - own.center[first_column + c]);
          ds[r + i][c] = unseen >> bit & 1 ? 0.0F : slope;
          p.x[i] *= m;
        }
        store(mine, p);
      }
    add_weighted<Rows, Dp, T>(a.vectors, dv, own.weights, own.hand, d_o);
    __syncthreads();
    store_weights(own.weights, ds);
    add_weighted<Rows, Dp, T>(a.vectors, dk, own.weights, own.hand, q);
  };

#pragma unroll 1
  for (int member = 0; member < per_group; ++member)
#pragma unroll 1
    for (int begin = 0; begin < query_tiles; begin += warp) {
      const int mine = begin + int(threadIdx.x) % warp;
      // Every warp computes the same.
      unsigned touched = __ballot_sync(
          0xffffffffU, mine < query_tiles && any_seen(a, query_spans[mine], key_span));
#pragma unroll 1
      for (; touched != 0; touched &= touched - 1)
        add_tile(begin + __ffs(int(touched)) - 1, member);
    }

  float factor[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r)
    factor[r] = a.scale;
  write_rows<Rows, Dp, T>(a.vectors, dk, factor, {op.dk + key_place, a.key_row, at.rows, D});
#pragma unroll
  for (int r = 0; r < Rows; ++r)
    factor[r] = 1;
  write_rows<Rows, Dp, T>(a.vectors, dv, factor, {op.dv + value_place, a.value_row, at.rows, Dv});
}

/// Adds ds (keys, queries) of a tile to `to` (bias.count). Each thread has distances of its own,
/// and adds queries in order.
template <int Threads, class T>
__device__ __forceinline__ void add_distances(const score_bias<T>& bias,
                                              const backward_tiles& own,
                                              span queries,
                                              int rows,
                                              int keys,
                                              float* to) {
  const int low = max(own.key_position[0] - queries.high, bias.first);
  const int high = min(own.key_position[keys - 1] - queries.low, bias.first + int(bias.count) - 1);
#pragma unroll 1
  for (int distance = low + int(threadIdx.x); distance <= high; distance += Threads) {
    float sum = 0;
    for (int i = 0; i < rows; ++i) {
      const int key = own.query_position[i] + distance;
      int j = min(key - own.key_position[0], keys - 1);  // positions ascend: no key is further on
      while (j >= 0 && own.key_position[j] > key)
        --j;
      if (j >= 0 && own.key_position[j] == key)
        sum += own.weights[weight_place(j, i)];
    }
    to[distance - bias.first] += sum;
  }
}

constexpr int sum_threads = 256;

template <class T>
__global__ void __launch_bounds__(sum_threads) sum_distances(const attention_backward<T> op,
                                                             const attention_work a,
                                                             const float* of,
                                                             int tiles) {
  const std::int64_t n = a.H * op.bias.count;
  const std::int64_t i = std::int64_t{blockIdx.x} * sum_threads + int(threadIdx.x);
  if (i >= n)
    return;
  float sum = 0;
  for (int t = 0; t < tiles; ++t)
    sum += of[t * n + i];
  op.dbias[i] = sum;
}

// --- dq: a thread's rows are queries, its columns are keys --------------------------------------

template <class T, int Dp, int Rows>
__global__ void __launch_bounds__(threads_of<Rows>, Dp == 256 ? 1 : 2)
    backward_queries(const attention_backward<T> op, const attention_work a, const prepared from) {
  __shared__ backward_tiles own;
  const int number = int(gridDim.x - 1 - blockIdx.x);  // longest tiles first, as in forward
  const tile_place at = find_tile(a.query_starts, a.S, number);
  const int h = int(blockIdx.y), per_group = int(a.H / a.G), g = h / per_group;
  float* dbias = nullptr;
  if (from.dbias != nullptr) {
    dbias = from.dbias + (number * a.H + h) * op.bias.count;
    for (int x = int(threadIdx.x); x < op.bias.count; x += threads_of<Rows>)
      dbias[x] = 0;
  }
  if (at.rows <= 0)
    return;
  const int first_key = a.key_starts[at.s];
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const span queries = from.spans[number];
  const std::int64_t place = at.first * a.query_row + g * a.query_group + (h - g * per_group) * a.D;
  const int D = int(a.D), Dv = int(a.Dv);
  const head_rows<const T> q{op.q + place, a.query_row, at.rows, D};
  const head_rows<const T> d_o{
      op.d_o + (std::int64_t{at.first} * a.H + h) * a.Dv, a.H * a.Dv, at.rows, Dv};
  const T* k = op.k + first_key * a.key_row + g * a.key_group;
  const T* v = op.v + first_key * a.value_row + g * a.value_group;
  const int first_row = int(threadIdx.x) / 16 * Rows, first_column = int(threadIdx.x) % 16 * 4;

  load_queries(op, a, from, own, at.s, at.first, at.rows, h);
  float dq[Rows][Dp / 16] = {};
  const int end = keys_end(a, keys, queries);
#pragma unroll 1
  for (int t = keys_begin(a, keys, queries); t < end; ++t) {
    const int n = keys.rows_of(t);
    const std::int64_t first = std::int64_t{t} * tile;
    const head_rows<const T> k_rows{k + first * a.key_row, a.key_row, n, D};
    load_keys(keys, t, own);
    unsigned kept = ~0U;
    if (a.p_drop > 0) {
      __syncthreads();
      kept = 0;
#pragma unroll 1
      for (int r = 0; r < Rows; ++r)
        kept |= kept_keys(a,
                          a.sample[at.s],
                          h,
                          own.query_position[first_row + r],
                          own.key_position + first_column,
                          4)
                << (4 * r);
    }
    float p[Rows][4], ds[Rows][4];
    score<Rows, T>(a.vectors, p, own.hand, q, k_rows);
    score<Rows, T>(a.vectors, ds, own.hand, d_o, {v + first * a.value_row, a.value_row, n, Dv});
    const bool whole = n == tile && at.rows == tile && all_seen(a, queries, keys.span_of_tile(t));
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int query = first_row + r, key = first_column + c;
        const bool hidden = !whole
                            && (query >= at.rows || key >= n
                                || !seen(a, own.query_position[query], own.key_position[key]));
        const float m = kept >> (4 * r + c) & 1 ? a.rest : 0.0F;
        float own_bias = 0;
        if (op.bias.values != nullptr && !hidden)
          own_bias = bias2_of(op.bias, h, own.query_position[query], own.key_position[key]);
        const float probability = exp2f(p[r][c] * a.scale2 + own_bias - own.lse2[query]);
        ds[r][c] = hidden ? 0.0F : probability * (m * ds[r][c] - own.center[query]);
      }
    store_weights(own.weights, ds);
    if (dbias != nullptr) {
      __syncthreads();
      add_distances<threads_of<Rows>>(op.bias, own, queries, at.rows, n, dbias);
    }
    add_weighted<Rows, Dp, T>(a.vectors, dq, own.weights, own.hand, k_rows);
  }

  float factor[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r)
    factor[r] = a.scale;
  write_rows<Rows, Dp, T>(a.vectors, dq, factor, {op.dq + place, a.query_row, at.rows, D});
}

struct scratch_plan {
  std::size_t centers;  ///< in bytes
  std::size_t spans;    ///< in bytes
  std::size_t bytes;

  template <class T>
  explicit scratch_plan(const attention_backward<T>& op)
      : centers(std::size_t(ceil_div(op.shape.query_rows * op.shape.H * 4, 16) * 16)) {
    const auto tiles = std::size_t(tile_numbers(op.shape.query_rows, op.shape.S));
    spans = tiles * sizeof(span);
    bytes = centers + spans;
    if (op.dbias != nullptr)
      bytes += tiles * std::size_t(op.shape.H * op.bias.count) * sizeof(float);
  }
};

template <class T>
prepared prepare_rows(const attention_backward<T>& op, const attention_work& a, const context& in) {
  const scratch_plan plan(op);
  auto* const memory = scratch_array<std::byte>(in, plan.bytes);
  const prepared rows{
      reinterpret_cast<float*>(memory),
      reinterpret_cast<span*>(memory + plan.centers),
      op.dbias == nullptr ? nullptr : reinterpret_cast<float*>(memory + plan.centers + plan.spans)};
  launch(in,
         dim3(unsigned(tile_numbers(a.query_rows, a.S)), unsigned(a.H)),
         dim3(prepare_threads),
         prepare<T>,
         op,
         a,
         rows);
  return rows;
}

template <class T, int Dp>
void backward_own(const attention_backward<T>& op,
                  const attention_work& a,
                  const prepared& rows,
                  const context& in) {
  constexpr int key_rows = Dp == 64 ? 8 : 4, query_rows = Dp == 256 ? 4 : 8;
  launch(in,
         dim3(unsigned(tile_numbers(a.key_rows, a.S)), unsigned(a.G)),
         dim3(threads_of<key_rows>),
         backward_keys<T, Dp, key_rows>,
         op,
         a,
         rows);
  launch(in,
         dim3(unsigned(tile_numbers(a.query_rows, a.S)), unsigned(a.H)),
         dim3(threads_of<query_rows>),
         backward_queries<T, Dp, query_rows>,
         op,
         a,
         rows);
  if (op.dbias != nullptr)
    launch(in,
           dim3(unsigned(ceil_div(a.H * op.bias.count, sum_threads))),
           dim3(sum_threads),
           sum_distances<T>,
           op,
           a,
           rows.dbias,
           int(tile_numbers(a.query_rows, a.S)));
}

template <class T>
attention_work backward_work(const attention_backward<T>& op) {
  return work_of<T>(op.shape, {op.dq, op.dk, op.dv, op.d_o, op.o, op.q, op.k, op.v});
}

template <class T>
bool takes(const attention_backward<T>& op) {
  return op.bias.values == nullptr
         && tensor_cores_take_rows<T>(op.shape,
                                      {op.dq, op.dk, op.dv, op.d_o, op.o, op.q, op.k, op.v});
}

template <class T>
void compute_own(const attention_backward<T>& op, own_kernels by, const context& in) {
  const auto a = backward_work(op);
  const prepared rows = prepare_rows(op, a, in);
  if constexpr (sizeof(T) == 2)
    if (by == own_kernels::tensor_cores && takes(op)) {
      backward_on_tensor_cores(op, a, rows.center, rows.spans, in);
      return;
    }
  const std::int64_t largest = std::max(a.D, a.Dv);
  if (largest <= 64)
    backward_own<T, 64>(op, a, rows, in);
  else if (largest <= 128)
    backward_own<T, 128>(op, a, rows, in);
  else
    backward_own<T, 256>(op, a, rows, in);
}

template <class T>
void compute(const attention_backward<T>& op, const context& in) {
  check_attention(op.shape);
  if (run_by_library(
          op, chosen_attention(), in, op.dq, op.dk, op.dv, op.d_o, op.o, op.lse, op.q, op.k, op.v))
    return;
  if (sizeof(T) == 2 && takes(op))
    note_scalar(op.shape);
  compute_own(op, chosen_own(), in);
}

}  // namespace

template <class T>
std::size_t scratch(const attention_backward<T>& op) {
  check_attention(op.shape);
  return attention_scratch(op, scratch_plan(op).bytes);
}

#define TROUPE_DEFINE(T)                                                             \
  template <>                                                                        \
  void run(const attention_backward<T>& op, const context& in) {                     \
    compute(op, in);                                                                 \
  }                                                                                  \
  template <>                                                                        \
  void run_own(const attention_backward<T>& op, own_kernels by, const context& in) { \
    compute_own(op, by, in);                                                         \
  }                                                                                  \
  template <>                                                                        \
  bool tensor_cores_take(const attention_backward<T>& op) {                          \
    return takes(op);                                                                \
  }                                                                                  \
  template std::size_t scratch(const attention_backward<T>&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
