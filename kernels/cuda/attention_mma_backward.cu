#include "kernels/cuda/attention_mma.cuh"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

// Two kernels, like attention_backward.cu: one has keys and iterates over queries, for dk and dv;
// the other has queries and iterates over keys, for dq. Each recomputes the probabilities.
//
// The rows of the iteration are copied one tile ahead. Rows that the last product of a tile needs
// (queries or keys) have two buffers; the others are free earlier and have one.

/// Rows in shared memory at a time, limited by 48 KiB and by registers.
template <int Dp>
constexpr int queries_at_hand = Dp == 256 ? 16 : 32;
template <int Dp>
constexpr int keys_at_hand = Dp == 64    ? 64
                             : Dp == 128 ? 32
                                         : 16;

/// Columns of dk and dv per block: all, or half if registers do not hold all.
template <int Dp>
constexpr int columns_of_keys = Dp == 256 ? 128 : Dp;

// --- dk and dv: rows are keys, columns are queries ----------------------------------------------

template <int Dp>
struct keys_memory {
  static constexpr int at_hand = queries_at_hand<Dp>;
  alignas(16) uint4 queries[2][at_hand * Dp / 8];
  alignas(16) uint4 gradients[at_hand * Dp / 8];
  alignas(16) uint4 keys[Dp == 256 ? 1 : tile * Dp / 8];
  std::int32_t key_position[tile], query_position[at_hand];
  float lse[at_hand], center[at_hand];
  unsigned char kept[at_hand * tile / 8];
};

/// Iterates over the queries that see some of the keys, for each head of a group in turn. All warps
/// follow the same sequence.
template <int AtHand>
class query_walk {
 public:
  /// `spans`: position ranges of the sequence's query tiles. `queries`: number of queries.
  /// `members`: heads of the group.
  __device__ query_walk(const span* spans, int queries, int members)
      : spans_(spans), queries_(queries), members_(members) {}

  /// False at the end.
  __device__ __forceinline__ bool next(const attention_work& a, span keys) {
    first_ += AtHand;
    if (first_ % tile != 0 && first_ < queries_)
      return true;  // in the same tile
    const int tiles = (queries_ + tile - 1) / tile;
    while (touched_ == 0) {
      begin_ += warp;
      if (begin_ >= tiles) {
        begin_ = 0;
        if (++member_ >= members_)
          return false;
      }
      const int mine = begin_ + int(threadIdx.x) % warp;
      touched_ = __ballot_sync(0xffffffffU, mine < tiles && any_seen(a, spans_[mine], keys));
    }
    first_ = (begin_ + __ffs(int(touched_)) - 1) * tile;
    touched_ &= touched_ - 1;
    return true;
  }
  __device__ __forceinline__ int left() const { return queries_ - first_; }  ///< from first() on
  __device__ __forceinline__ int member() const { return member_; }
  __device__ __forceinline__ int first() const { return first_; }  ///< within the sequence

 private:
  const span* spans_;
  int queries_, members_;
  int member_ = -1;
  int begin_ = 1 << 30;  // past the last tile, before the first head
  unsigned touched_ = 0;
  int first_ = -AtHand;
};

template <class T, int Dp>
__global__ void __launch_bounds__(mma_threads, Dp == 64 ? 3 : 2)
    keys_mma(const attention_backward<T> op,
             const attention_work a,
             const float* center,
             const span* spans) {
  constexpr int at_hand = queries_at_hand<Dp>, N = at_hand / 8, M = columns_of_keys<Dp> / 8;
  __shared__ keys_memory<Dp> own;
  const tile_place at = find_tile(a.key_starts, a.S, int(blockIdx.x));
  if (at.rows <= 0)
    return;
  const int g = int(blockIdx.y), per_group = int(a.H / a.G), D = int(a.D), Dv = int(a.Dv);
  const int first_key = a.key_starts[at.s], first_query = a.query_starts[at.s];
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const span key_span = keys.span_of_tile(at.number);
  const std::int64_t key_place = at.first * a.key_row + g * a.key_group;
  const std::int64_t value_place = at.first * a.value_row + g * a.value_group;
  const int first_chunk = int(blockIdx.z) * M;

  async_copies copies;
  const auto copy_queries = [&](const query_walk<at_hand>& to, int buffer) {
    const T* q
        = op.q + (first_query + to.first()) * a.query_row + g * a.query_group + to.member() * a.D;
    copy_rows<at_hand, Dp>(copies, own.queries[buffer], q, a.query_row, to.left(), D);
  };
  const auto copy_gradients = [&](const query_walk<at_hand>& to) {
    const int h = g * per_group + to.member(), first = first_query + to.first();
    const int n = to.left();
    const std::int64_t row = std::int64_t{first} * a.H + h;
    copy_rows<at_hand, Dp>(copies, own.gradients, op.d_o + row * a.Dv, a.H * a.Dv, n, Dv);
    copy_numbers<at_hand>(copies, own.query_position, a.query_position + first, 1, n);
    copy_numbers<at_hand>(copies, own.lse, op.lse + lse_of(a, at.s, h, first), 1, n);
    copy_numbers<at_hand>(copies, own.center, center + row, a.H, n);
  };

  if constexpr (Dp != 256)
    copy_rows<tile, Dp>(copies, own.keys, op.k + key_place, a.key_row, at.rows, D);
  if (threadIdx.x < tile)
    own.key_position[threadIdx.x]
        = int(threadIdx.x) < at.rows ? a.key_position[at.first + threadIdx.x] : 0;
  const auto k = [&] {
    if constexpr (Dp == 256)
      return rows_in_memory<T>(op.k + key_place, a.key_row, at.rows, D);
    else
      return shared_rows<Dp>(own.keys);
  }();
  const left_rows<T, Dp> v(op.v + value_place, a.value_row, at.rows, Dv);

  const lane_place mine;
  float dk[M][4] = {}, dv[M][4] = {};
  query_walk<at_hand> next(
      spans + first_query / tile + at.s, a.query_starts[at.s + 1] - first_query, per_group);
  bool more = next.next(a, key_span);
  if (more) {
    copy_queries(next, 0);
    copy_gradients(next);
  }
#pragma unroll 1
  for (int buffer = 0; more; buffer ^= 1) {
    const int h = g * per_group + next.member(), n = next.left();
    more = next.next(a, key_span);
    copies.wait();
    __syncthreads();  // data is complete, and all are done with the previous queries
    if (more)
      copy_queries(next, buffer ^ 1);
    if (a.p_drop > 0) {
      draw_kept<at_hand, tile>(
          a, a.sample[at.s], h, own.query_position, own.key_position, own.kept);
      __syncthreads();
    }
    float p[N][4] = {}, ds[N][4] = {};
    add_scores_of<T, Dp>(p, k, own.queries[buffer]);
    add_scores_of<T, Dp>(ds, v, own.gradients);
#pragma unroll
    for (int c = 0; c < N; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = mine.row + i / 2 * 8, query = 8 * c + mine.column + i % 2;
        const bool hidden = query >= n || key >= at.rows
                            || !seen(a, own.query_position[query], own.key_position[key]);
        float m = a.rest;
        if (a.p_drop > 0 && (own.kept[query * (tile / 8) + key / 8] >> (key % 8) & 1) == 0)
          m = 0;
        const float probability = exp2f(p[c][i] * a.scale2 - own.lse[query] * log2_e);
        ds[c][i] = hidden ? 0.0F : probability * (m * ds[c][i] - own.center[query]);
        p[c][i] = hidden || m == 0 ? 0.0F : probability;
      }
    add_weighted_rows<T, Dp>(dv, p, own.gradients, first_chunk);
    __syncthreads();  // all are done with the gradients
    if (more)
      copy_gradients(next);
    add_weighted_rows<T, Dp>(dk, ds, own.queries[buffer], first_chunk);
  }
  copies.wait();  // if no query sees these keys, their copies are still pending

  const float of_keys[2] = {a.scale, a.scale}, of_values[2] = {a.rest, a.rest};
  write_result(dk, of_keys, op.dk + key_place, a.key_row, at.rows, 8 * first_chunk, D);
  write_result(dv, of_values, op.dv + value_place, a.value_row, at.rows, 8 * first_chunk, Dv);
}

// --- dq: rows are queries, columns are keys -----------------------------------------------------

template <int Dp>
struct queries_memory {
  static constexpr int at_hand = keys_at_hand<Dp>;
  alignas(16) uint4 keys[2][at_hand * Dp / 8];
  alignas(16) uint4 values[at_hand * Dp / 8];
  std::int32_t query_position[tile], key_position[at_hand];
  unsigned char kept[tile * at_hand / 8];
};

template <class T, int Dp>
__global__ void __launch_bounds__(mma_threads, Dp == 64 ? 3 : 2)
    queries_mma(const attention_backward<T> op,
                const attention_work a,
                const float* center,
                const span* spans) {
  constexpr int at_hand = keys_at_hand<Dp>, N = at_hand / 8;
  __shared__ queries_memory<Dp> own;
  const int number = int(gridDim.x - 1 - blockIdx.x);  // longest tiles first, as in forward
  const tile_place at = find_tile(a.query_starts, a.S, number);
  if (at.rows <= 0)
    return;
  const int h = int(blockIdx.y), per_group = int(a.H / a.G), g = h / per_group;
  const int D = int(a.D), Dv = int(a.Dv);
  const int first_key = a.key_starts[at.s];
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const span queries = spans[number];
  const std::int64_t place = at.first * a.query_row + g * a.query_group + (h - g * per_group) * a.D;
  const std::int64_t row = std::int64_t{at.first} * a.H + h;
  const T* k = op.k + first_key * a.key_row + g * a.key_group;
  const T* v = op.v + first_key * a.value_row + g * a.value_group;

  async_copies copies;
  const auto copy_keys = [&](int from, int buffer) {
    copy_rows<at_hand, Dp>(
        copies, own.keys[buffer], k + from * a.key_row, a.key_row, keys.rows - from, D);
  };
  const auto copy_values = [&](int from) {
    const int n = keys.rows - from;
    copy_rows<at_hand, Dp>(copies, own.values, v + from * a.value_row, a.value_row, n, Dv);
    copy_numbers<at_hand>(copies, own.key_position, keys.positions + from, 1, n);
  };
  const int begin = keys_begin(a, keys, queries) * tile;
  const int end = min(keys_end(a, keys, queries) * tile, keys.rows);
  if (begin < end) {
    copy_keys(begin, 0);
    copy_values(begin);
  }

  const left_rows<T, Dp> q(op.q + place, a.query_row, at.rows, D);
  const left_rows<T, Dp> d_o(op.d_o + row * a.Dv, a.H * a.Dv, at.rows, Dv);
  const lane_place mine;
  float lse2[2], slope[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = mine.row + 8 * half;
    lse2[half] = i < at.rows ? op.lse[lse_of(a, at.s, h, at.first + i)] * log2_e : 0.0F;
    slope[half] = i < at.rows ? center[row + i * a.H] : 0.0F;
  }
  if (threadIdx.x < tile)
    own.query_position[threadIdx.x]
        = int(threadIdx.x) < at.rows ? a.query_position[at.first + threadIdx.x] : 0;

  float dq[Dp / 8][4] = {};
  int buffer = 0;
#pragma unroll 1
  for (int from = begin; from < end; from += at_hand, buffer ^= 1) {
    const int n = keys.rows - from;
    const bool more = from + at_hand < end;
    copies.wait();
    __syncthreads();  // data is complete, and all are done with the previous keys
    if (more)
      copy_keys(from + at_hand, buffer ^ 1);
    if (a.p_drop > 0) {
      draw_kept<tile, at_hand>(
          a, a.sample[at.s], h, own.query_position, own.key_position, own.kept);
      __syncthreads();
    }
    float p[N][4] = {}, ds[N][4] = {};
    add_scores_of<T, Dp>(p, q, own.keys[buffer]);
    add_scores_of<T, Dp>(ds, d_o, own.values);
#pragma unroll
    for (int c = 0; c < N; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i / 2, query = mine.row + 8 * half, key = 8 * c + mine.column + i % 2;
        const bool hidden = key >= n || !seen(a, own.query_position[query], own.key_position[key]);
        float m = a.rest;
        if (a.p_drop > 0 && (own.kept[query * N + c] >> (key % 8) & 1) == 0)
          m = 0;
        const float probability = exp2f(p[c][i] * a.scale2 - lse2[half]);
        ds[c][i] = hidden ? 0.0F : probability * (m * ds[c][i] - slope[half]);
      }
    __syncthreads();  // all are done with the values
    if (more)
      copy_values(from + at_hand);
    add_weighted_rows<T, Dp>(dq, ds, own.keys[buffer], 0);
  }

  const float factor[2] = {a.scale, a.scale};
  write_result(dq, factor, op.dq + place, a.query_row, at.rows, 0, D);
}

template <class T, int Dp>
void launch_backward(const attention_backward<T>& op,
                     const attention_work& a,
                     const float* center,
                     const span* spans,
                     const context& in) {
  launch(in,
         dim3(unsigned(tile_numbers(a.key_rows, a.S)),
              unsigned(a.G),
              unsigned(Dp / columns_of_keys<Dp>)),
         dim3(mma_threads),
         keys_mma<T, Dp>,
         op,
         a,
         center,
         spans);
  launch(in,
         dim3(unsigned(tile_numbers(a.query_rows, a.S)), unsigned(a.H)),
         dim3(mma_threads),
         queries_mma<T, Dp>,
         op,
         a,
         center,
         spans);
}

}  // namespace

template <class T>
void backward_on_tensor_cores(const attention_backward<T>& op,
                              const attention_work& a,
                              const float* center,
                              const span* spans,
                              const context& in) {
  const std::int64_t largest = std::max(a.D, a.Dv);
  if (largest <= 64)
    launch_backward<T, 64>(op, a, center, spans, in);
  else if (largest <= 128)
    launch_backward<T, 128>(op, a, center, spans, in);
  else
    launch_backward<T, 256>(op, a, center, spans, in);
}

template void backward_on_tensor_cores(const attention_backward<bf16>&,
                                       const attention_work&,
                                       const float*,
                                       const span*,
                                       const context&);
template void backward_on_tensor_cores(const attention_backward<f16>&,
                                       const attention_work&,
                                       const float*,
                                       const span*,
                                       const context&);

}  // namespace troupe::kernels::cuda
