// Common parts of the scalar attention kernels: 64 x 64 tiles of queries and keys.
//
// A block iterates over the tiles of its rows. Scores are computed from depth-major chunks (32 of D
// or Dv by 64 rows). A thread computes Rows x 4 scores: rows by threadIdx.x / 16, columns by
// threadIdx.x % 16. Weights go through shared memory, columns by rows. Multiplied by rows of heads
// they add to a thread's result: Rows x (every 64 columns) x 4. All arithmetic is fp32.
//
// Blocks find their tile without a table. The tiles of sequence s are numbered from starts[s] / 64
// + s on. So rows / 64 + S blocks are enough for any sequence lengths.

#pragma once

#include "kernels/cuda/attention_choice.hpp"
#include "kernels/cuda/device.cuh"

#include <initializer_list>
#include <limits>

namespace troupe::kernels::cuda {

constexpr int tile = 64;   ///< queries and keys per tile
constexpr int depth = 32;  ///< part of D per chunk

/// Parameters of all blocks, computed on the host.
struct attention_work : attention_shape {
  unsigned reach;      ///< largest visible distance from a query back to a key
  float scale2;        ///< scale for exponents to base 2
  float rest;          ///< dropout's factor on kept weights
  unsigned threshold;  ///< words below it are dropped
  bool vectors;        ///< rows of heads are multiples of 16 bytes and aligned to them
};

constexpr float log2_e = 1.44269504088896341F;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// `arrays`: all arrays of head rows.
template <class T>
attention_work work_of(const attention_shape& shape, std::initializer_list<const T*> arrays) {
  attention_work a = {shape};
  a.reach = !a.causal      ? ~0U
            : a.window < 0 ? unsigned(std::numeric_limits<std::int32_t>::max())
                           : unsigned(a.window);
  a.scale2 = a.scale * log2_e;
  a.rest = 1 / (1 - a.p_drop);
  a.threshold = drop_threshold(a.p_drop);
  a.vectors = true;
  for (const T* array : arrays)
    a.vectors = a.vectors && all_aligned(array);
  for (const std::int64_t n :
       {a.D, a.Dv, a.query_row, a.query_group, a.key_row, a.key_group, a.value_row, a.value_group})
    a.vectors = a.vectors && n % wide<T> == 0;
  return a;
}

inline std::int64_t tile_numbers(std::int64_t rows, std::int64_t S) {
  return rows / tile + S;
}

/// A tile: at most 64 rows of one sequence.
struct tile_place {
  int s;
  int number;  ///< within its sequence
  int first;   ///< row within the whole batch
  int rows;    ///< 0 or less: an unused number
};

__device__ inline tile_place find_tile(const std::int32_t* starts, std::int64_t S, int number) {
  int low = 0, high = int(S) - 1;  // the last sequence with tile numbers that start at or before it
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (starts[middle] / tile + middle <= number)
      low = middle;
    else
      high = middle - 1;
  }
  const int begin = starts[low], t = number - (begin / tile + low), first = begin + t * tile;
  return {low, t, first, min(tile, starts[low + 1] - first)};
}

/// The sequence that contains a row.
__device__ inline int sequence_of(const std::int32_t* starts, std::int64_t S, int row) {
  int low = 0, high = int(S) - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (starts[middle] <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Offset of a query row's lse; the following rows follow.
__device__ __forceinline__ std::int64_t lse_of(const attention_work& a, int s, int h, int row) {
  return lse_at(a.H, a.query_starts[s], a.query_starts[s + 1], h, row);
}

/// Shared memory of a block: the current chunks, the weights and the positions of its rows.
struct shared_tiles {
  alignas(16) float hand[2 * depth * tile];
  alignas(16) float weights[tile * tile];
  std::int32_t query_position[tile], key_position[tile];
};

/// Range of positions.
struct span {
  std::int32_t low, high;
};

/// Range of `rows` positions; each warp computes it for itself.
__device__ inline span span_of(const std::int32_t* positions, int rows) {
  const int lane = int(threadIdx.x) % warp;
  int low = positions[0], high = low;
  for (int i = lane; i < rows; i += warp) {
    low = min(low, positions[i]);
    high = max(high, positions[i]);
  }
  return {__reduce_min_sync(0xffffffffU, low), __reduce_max_sync(0xffffffffU, high)};
}

/// Whether some pair, or every pair, of queries and keys in these ranges is visible.
__device__ __forceinline__ bool any_seen(const attention_work& a, span queries, span keys) {
  return !a.causal
         || (keys.low <= queries.high
             && (a.window < 0 || attention_horizon(a, queries.low) <= keys.high));
}
__device__ __forceinline__ bool all_seen(const attention_work& a, span queries, span keys) {
  return !a.causal
         || (keys.high <= queries.low
             && (a.window < 0 || attention_horizon(a, queries.high) <= keys.low));
}
__device__ __forceinline__ bool seen(const attention_work& a, int query, int key) {
  return unsigned(query - key) <= a.reach;
}

/// Bias of a visible pair of positions, for exponents to base 2.
template <class T>
__device__ __forceinline__ float bias2_of(const score_bias<T>& bias, int h, int query, int key) {
  return bias.values[h * bias.count + (std::int64_t{key} - query - bias.first)] * log2_e;
}

/// The keys of a sequence in tiles; positions ascend.
struct key_tiles {
  const std::int32_t* positions;  ///< (rows)
  int rows;

  __device__ int rows_of(int t) const { return min(tile, rows - t * tile); }
  __device__ span span_of_tile(int t) const {
    return {positions[t * tile], positions[t * tile + rows_of(t) - 1]};
  }
  /// The first tile for which `after` holds; `after` is monotonic.
  template <class After>
  __device__ int first(After after) const {
    int low = 0, high = (rows + tile - 1) / tile;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (after(span_of_tile(middle)))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

__device__ __forceinline__ void load_keys(const key_tiles& keys, int t, shared_tiles& to) {
  const int i = int(threadIdx.x);
  if (i < tile)
    to.key_position[i] = i < keys.rows_of(t) ? keys.positions[t * tile + i] : 0;
}

/// Range of key tiles that are visible from these queries.
__device__ __forceinline__ int keys_begin(const attention_work& a,
                                          const key_tiles& keys,
                                          span queries) {
  return keys.first([&](span x) {
    return !a.causal || a.window < 0 || x.high >= attention_horizon(a, queries.low);
  });
}
__device__ __forceinline__ int keys_end(const attention_work& a,
                                        const key_tiles& keys,
                                        span queries) {
  return keys.first([&](span x) { return a.causal && x.low > queries.high; });
}

// --- from memory to shared memory ---------------------------------------------------------------

/// Rows of heads in memory.
template <class T>
struct head_rows {
  T* from;
  std::int64_t stride;
  int rows;
  int D;  ///< elements of a row
};

/// Loads columns [begin, begin + depth) of rows, depth-major, to (depth, 64), padded with 0.
template <int Threads, class T>
__device__ __forceinline__ void load_columns(bool vectors,
                                             float* to,
                                             const head_rows<const T>& x,
                                             int begin) {
  constexpr int W = wide<T>;
  if (vectors) {
#pragma unroll
    for (int i = 0; i < tile * depth / W / Threads; ++i) {
      const int item = i * Threads + int(threadIdx.x), row = item % tile, d = item / tile * W;
      pack<T, W> some = {};
      if (row < x.rows && begin + d < x.D)
        some = load<T, W>(x.from + row * x.stride + begin + d);
#pragma unroll
      for (int w = 0; w < W; ++w)
        to[(d + w) * tile + row] = to_float(some.x[w]);
    }
  } else {
#pragma unroll 4
    for (int i = 0; i < tile * depth / Threads; ++i) {
      const int item = i * Threads + int(threadIdx.x), row = item % tile, d = item / tile;
      const bool there = row < x.rows && begin + d < x.D;
      to[item] = there ? to_float(x.from[row * x.stride + begin + d]) : 0.0F;
    }
  }
}

/// Rows per chunk if results have Dp columns.
template <int Dp>
constexpr int rows_at_hand = 2 * depth* tile / Dp;

/// Loads rows from `begin` on, row-major, to (rows_at_hand, Dp), padded with 0.
template <int Threads, int Dp, class T>
__device__ __forceinline__ void load_rows(bool vectors,
                                          float* to,
                                          const head_rows<const T>& x,
                                          int begin) {
  constexpr int W = wide<T>, loads = rows_at_hand<Dp> * Dp / W / Threads;
  const T* const from = x.from + begin * x.stride;
  const int rows = x.rows - begin;
  if (vectors) {
#pragma unroll(Threads == 256 ? 1 : loads)  // too few registers for more
    for (int i = 0; i < loads; ++i) {
      const int item = i * Threads + int(threadIdx.x), row = item / (Dp / W),
                d = item % (Dp / W) * W;
      pack<T, W> some = {};
      if (row < rows && d < x.D)
        some = load<T, W>(from + row * x.stride + d);
      pack<float, W> wider;
#pragma unroll
      for (int w = 0; w < W; ++w)
        wider.x[w] = to_float(some.x[w]);
#pragma unroll
      for (int w = 0; w < W; w += 4)
        store(to + row * Dp + d + w,
              pack<float, 4>{wider.x[w], wider.x[w + 1], wider.x[w + 2], wider.x[w + 3]});
    }
  } else {
#pragma unroll 4
    for (int i = 0; i < rows_at_hand<Dp> * Dp / Threads; ++i) {
      const int item = i * Threads + int(threadIdx.x), row = item / Dp, d = item % Dp;
      to[item] = row < rows && d < x.D ? to_float(from[row * x.stride + d]) : 0.0F;
    }
  }
}

// --- products -----------------------------------------------------------------------------------

/// out += a b^T for one chunk; a and b are (depth, 64).
template <int Rows>
__device__ __forceinline__ void add_scores(float (&out)[Rows][4], const float* a, const float* b) {
  a += int(threadIdx.x) / 16 * Rows;
  b += int(threadIdx.x) % 16 * 4;
#pragma unroll 8
  for (int d = 0; d < depth; ++d) {
    float left[Rows];
#pragma unroll
    for (int r = 0; r < Rows; r += 4) {
      const auto four = load<float, 4>(a + d * tile + r);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        left[r + i] = four.x[i];
    }
    const auto right = load<float, 4>(b + d * tile);
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        out[r][c] += left[r] * right.x[c];
  }
}

/// Scores of two tiles of rows. `hand` (2, depth, 64) holds the chunks.
template <int Rows, class T>
__device__ __forceinline__ void score(bool vectors,
                                      float (&out)[Rows][4],
                                      float* hand,
                                      const head_rows<const T>& left,
                                      const head_rows<const T>& right) {
  constexpr int threads = tile / Rows * 16;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      out[r][c] = 0;
#pragma unroll 1
  for (int d = 0; d < left.D; d += depth) {
    __syncthreads();  // all threads have finished with the tiles
    load_columns<threads>(vectors, hand, left, d);
    load_columns<threads>(vectors, hand + depth * tile, right, d);
    __syncthreads();
    add_scores(out, hand, hand + depth * tile);
  }
}

/// Place of the weight (column, row) in (64 columns, 64 rows). Groups of four columns are rotated
/// by four rows, so that neighbouring threads store to different banks.
__device__ __forceinline__ int weight_place(int column, int row) {
  return column * tile + (row ^ (column / 4 % 8 * 4));
}

template <int Rows>
__device__ __forceinline__ void store_weights(float* weights, const float (&x)[Rows][4]) {
  const int row = int(threadIdx.x) / 16 * Rows, column = int(threadIdx.x) % 16 * 4;
#pragma unroll
  for (int c = 0; c < 4; ++c)
#pragma unroll
    for (int r = 0; r < Rows; r += 4)
      store(weights + weight_place(column + c, row + r),
            pack<float, 4>{x[r][c], x[r + 1][c], x[r + 2][c], x[r + 3][c]});
}

/// out[r][64 n + 4 (thread % 16) + c] += the sum over the rows `x` of weights times rows; `out` has
/// Dp / 16 columns. `hand` (rows_at_hand, Dp) holds the rows.
template <int Rows, int Dp, class T>
__device__ __forceinline__ void add_weighted(bool vectors,
                                             float (&out)[Rows][Dp / 16],
                                             const float* weights,
                                             float* hand,
                                             const head_rows<const T>& x) {
  constexpr int threads = tile / Rows * 16, at_hand = rows_at_hand<Dp>;
  const int mine = int(threadIdx.x) / 16 * Rows;
#pragma unroll 1
  for (int begin = 0; begin < x.rows; begin += at_hand) {
    __syncthreads();  // all threads have finished with the tiles
    load_rows<threads, Dp>(vectors, hand, x, begin);
    __syncthreads();  // rows and weights are in shared memory
    const float* right = hand + int(threadIdx.x) % 16 * 4;
    const int n = min(at_hand, x.rows - begin);  // padding to four is 0
#pragma unroll 1
    for (int j = 0; j < n; j += 4) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float left[Rows];
#pragma unroll
        for (int r = 0; r < Rows; r += 4) {
          const auto four = load<float, 4>(weights + weight_place(begin + j, mine + r) + k * tile);
#pragma unroll
          for (int i = 0; i < 4; ++i)
            left[r + i] = four.x[i];
        }
#pragma unroll
        for (int g = 0; g < Dp / 64; ++g) {
          const auto four = load<float, 4>(right + (j + k) * Dp + g * 64);
#pragma unroll
          for (int r = 0; r < Rows; ++r)
#pragma unroll
            for (int c = 0; c < 4; ++c)
              out[r][g * 4 + c] += left[r] * four.x[c];
        }
      }
    }
  }
}

/// Writes the rows of a result, each multiplied by its factor.
template <int Rows, int Dp, class T>
__device__ __forceinline__ void write_rows(bool vectors,
                                           const float (&out)[Rows][Dp / 16],
                                           const float (&factor)[Rows],
                                           const head_rows<T>& to) {
  const int first = int(threadIdx.x) / 16 * Rows, column = int(threadIdx.x) % 16 * 4;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if (first + r >= to.rows)
      break;
    T* row = to.from + (first + r) * to.stride;
#pragma unroll
    for (int g = 0; g < Dp / 64; ++g) {
      const int d = g * 64 + column;
      pack<T, 4> x;
#pragma unroll
      for (int c = 0; c < 4; ++c)
        x.x[c] = from_float<T>(out[r][g * 4 + c] * factor[r]);
      if (vectors) {
        if (d < to.D)
          store(row + d, x);
      } else {
#pragma unroll
        for (int c = 0; c < 4; ++c)
          if (d + c < to.D)
            row[d + c] = x.x[c];
      }
    }
  }
}

// --- dropout ------------------------------------------------------------------------------------

/// Dropout mask of a query and n neighbouring keys: bit j is 1 if the probability of keys[j] is
/// kept. Four consecutive positions share one draw.
__device__ inline unsigned kept_keys(const attention_work& a,
                                     std::uint64_t sample,
                                     std::int64_t head,
                                     std::int32_t query,
                                     const std::int32_t* keys,
                                     int n) {
  const std::uint64_t stream = attention_stream(sample, query);
  std::uint64_t drawn = ~std::uint64_t{0};
  philox_counter words = {};
  unsigned bits = 0;
#pragma unroll 1
  for (int j = 0; j < n; ++j) {
    const std::uint64_t word = attention_word(a.first_head + head, keys[j]);
    if (word / 4 != drawn) {
      drawn = word / 4;
      words = philox(a.key, philox_block(stream, drawn));
    }
    const unsigned of_two[2] = {word & 1 ? words[1] : words[0], word & 1 ? words[3] : words[2]};
    bits |= unsigned((word & 2 ? of_two[1] : of_two[0]) >= a.threshold) << j;
  }
  return bits;
}

}  // namespace troupe::kernels::cuda
