#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

// --- forward -----------------------------------------------------------------------------------

template <class T, int W>
struct embedding_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> token, position;
  };
  T* y;
  const T* table;
  const T* position_table;
  const std::int32_t* id;
  const std::int32_t* position;
  std::int64_t C;
  std::int32_t first, rows;
  divider steps_of_row;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    const std::int64_t r = steps_of_row.quotient(unsigned(i / W)), c = i - r * C;
    const std::int64_t row = std::int64_t{id[r]} - first;
    inputs in;
    if (row >= 0 && row < rows)
      in.token = fetch<T, W>(table + row * C + c);
    else
      in.token = {};
    if (position_table)
      in.position = fetch<T, W>(position_table + position[r] * C + c);
    else
      in.position = {};
    return in;
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k)
      out[k] = in.token[k] + in.position[k];
    put(y + i, out);
  }
};

template <class T>
void run_op(const embedding_forward<T>& op, const context& in) {
  const bool vectors = op.C % wide<T> == 0 && all_aligned(op.y, op.table, op.position_table);
  each_in_rows<wide<T>>(
      in, op.R, op.C, vectors, [&](auto width, std::int64_t r, const divider& steps) {
        return embedding_body<T, width()>{.y = op.y + r * op.C,
                                          .table = op.table,
                                          .position_table = op.position_table,
                                          .id = op.id + r,
                                          .position = op.position ? op.position + r : nullptr,
                                          .C = op.C,
                                          .first = op.first,
                                          .rows = op.rows,
                                          .steps_of_row = steps};
      });
}

// --- backward ----------------------------------------------------------------------------------

// Sorts the rows of dy by table row, and rows with the same table row by number. The keys are
// (table row) * 2^32 + (row of dy). They are distinct, so the order is unique and does not depend
// on the sorting algorithm. Then one warp adds all rows of a table row in order to some of its
// columns. No other warp writes there.
//
// Tiles of 2,048 keys are sorted in shared memory. The final place of a key is the number of
// smaller keys: the sum of its places in all tiles, each found by bisection. For R = 65,536 that is
// 32 tiles with 11 steps per key, in the L2 cache; dy is hundreds of times larger.

constexpr int sort_tile = 2048, sort_threads = 1024, place_threads = 256;
constexpr std::uint64_t nowhere = ~std::uint64_t{0};  ///< not in this part of the table: last

/// One scatter-add for the sort: for tokens, or for positions.
struct scattered {
  const std::int32_t* row;  ///< (R)
  std::int32_t first, rows;
  std::uint64_t* tiles;   ///< (R) scratch
  std::uint64_t* sorted;  ///< (R) scratch
};
struct scattered_pair {
  scattered of[2];
};

__global__ void __launch_bounds__(sort_threads)
    sort_tiles_kernel(const __grid_constant__ scattered_pair pair, std::int64_t R) {
  __shared__ std::uint64_t keys[sort_tile];
  const scattered& to = pair.of[blockIdx.y];
  const std::int64_t begin = std::int64_t{blockIdx.x} * sort_tile;
  for (int k = int(threadIdx.x); k < sort_tile; k += sort_threads) {
    const std::int64_t r = begin + k;
    std::uint64_t key = nowhere;
    if (r < R) {
      const std::int64_t row = std::int64_t{to.row[r]} - to.first;
      const bool here = row >= 0 && row < to.rows;
      key = (here ? std::uint64_t(row) : nowhere >> 32) << 32 | std::uint64_t(r);
    }
    keys[k] = key;
  }
  // Bitonic sort. Source: Batcher, "Sorting Networks and Their Applications", 1968.
  for (int run = 2; run <= sort_tile; run *= 2)
    for (int apart = run / 2; apart > 0; apart /= 2) {
      __syncthreads();
      const int low = 2 * int(threadIdx.x) - (int(threadIdx.x) & (apart - 1)), high = low + apart;
      const std::uint64_t a = keys[low], b = keys[high];
      if ((a > b) == ((low & run) == 0)) {
        keys[low] = b;
        keys[high] = a;
      }
    }
  __syncthreads();
  for (int k = int(threadIdx.x); k < sort_tile; k += sort_threads)
    if (begin + k < R)
      to.tiles[begin + k] = keys[k];
}

__global__ void __launch_bounds__(place_threads)
    place_keys_kernel(const __grid_constant__ scattered_pair pair, std::int64_t R) {
  const scattered& to = pair.of[blockIdx.y];
  const std::int64_t i = std::int64_t{blockIdx.x} * place_threads + threadIdx.x;
  if (i >= R)
    return;
  const std::uint64_t key = to.tiles[i];
  std::int64_t place = i % sort_tile;
  for (std::int64_t begin = 0; begin < R; begin += sort_tile) {
    if (begin == i - i % sort_tile)
      continue;
    std::int64_t low = begin, high = R - begin < sort_tile ? R : begin + sort_tile;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (to.tiles[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    place += low - begin;
  }
  to.sorted[place] = key;
}

constexpr int scatter_threads = 128;
constexpr std::int64_t part = embedding_backward<float>::part;

/// Index of the first sorted key with the same table row as key p.
__device__ __forceinline__ std::int64_t first_of_row(const std::uint64_t* sorted, std::int64_t p) {
  const std::uint64_t row = sorted[p] >> 32;
  std::int64_t low = 0, high = p;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (sorted[middle] >> 32 < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// Destinations of a warp's sums, C columns each. Parts other than the first of their table row
/// start at least 256 keys apart. So the part that starts at key p has slot p / 256.
struct row_sums {
  float* table;
  float* parts;
};

// One warp per key. If the key starts a part, the warp adds that part, otherwise nothing.
template <class T, int W>
__global__ void __launch_bounds__(scatter_threads) add_rows_kernel(
    const row_sums to, const std::uint64_t* sorted, const T* dy, std::int64_t R, std::int64_t C) {
  constexpr int at_once = 8;
  static_assert(part % warp == 0);
  const int lane = int(threadIdx.x) % warp;
  std::int64_t p = std::int64_t{blockIdx.x} * (scatter_threads / warp) + threadIdx.x / warp;
  if (p >= R)
    return;
  const std::uint64_t row = sorted[p] >> 32;
  if (row == nowhere >> 32)
    return;
  const bool first_part = p == 0 || sorted[p - 1] >> 32 != row;
  if (!first_part) {
    if (p < part || sorted[p - part] >> 32 != row || (p - first_of_row(sorted, p)) % part != 0)
      return;
  }
  const std::int64_t c = (std::int64_t{blockIdx.y} * warp + lane) * W;
  const bool mine = c < C;
  float* const result
      = (first_part ? to.table + std::int64_t(row) * C : to.parts + p / part * C) + c;
  float sum[W] = {};
  if (mine && first_part) {
    const auto before = fetch<float, W>(result);
#pragma unroll
    for (int k = 0; k < W; ++k)
      sum[k] = before[k];
  }
  const std::int64_t end = p + part < R ? p + part : R;
  for (bool last = false; !last; p += warp) {
    const std::uint64_t key = p + lane < end ? sorted[p + lane] : nowhere;
    const unsigned others = __ballot_sync(0xffffffffU, key >> 32 != row);
    const int n = others == 0 ? warp : __ffs(int(others)) - 1;
    last = others != 0;
    for (int first = 0; first < n; first += at_once) {
      bundle<T, W> x[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const auto r = __shfl_sync(0xffffffffU, unsigned(key), (first + u) % warp);
        if (first + u < n && mine)
          x[u] = fetch<T, W>(dy + std::int64_t{r} * C + c);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (first + u < n)
#pragma unroll
          for (int k = 0; k < W; ++k)
            sum[k] += x[u][k];
    }
  }
  if (mine)
    put(result, sum);
}

// One warp per 256th key. If the key is the first of these in its table row, the warp adds the sums
// of the row's further parts.
template <int W>
__global__ void __launch_bounds__(scatter_threads) add_parts_kernel(const row_sums to,
                                                                    const std::uint64_t* sorted,
                                                                    std::int64_t R,
                                                                    std::int64_t C) {
  constexpr int at_once = 8;
  const std::int64_t key
      = (std::int64_t{blockIdx.x} * (scatter_threads / warp) + threadIdx.x / warp) * part;
  const std::int64_t c = (std::int64_t{blockIdx.y} * warp + std::int64_t{threadIdx.x} % warp) * W;
  if (key >= R || c >= C)
    return;
  const std::uint64_t row = sorted[key] >> 32;
  if (row == nowhere >> 32)
    return;
  const std::int64_t first = first_of_row(sorted, key);
  const auto there = [&](std::int64_t p) { return p < R && sorted[p] >> 32 == row; };
  if (key - first >= part || !there(first + part))
    return;
  float* const result = to.table + std::int64_t(row) * C + c;
  float sum[W];
  const auto before = fetch<float, W>(result);
#pragma unroll
  for (int k = 0; k < W; ++k)
    sum[k] = before[k];
  for (std::int64_t p = first + part; there(p); p += at_once * part) {
    bundle<float, W> x[at_once];
    bool is[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      is[u] = there(p + u * part);
      if (is[u])
        x[u] = fetch<float, W>(to.parts + (p + u * part) / part * C + c);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (is[u])
#pragma unroll
        for (int k = 0; k < W; ++k)
          sum[k] += x[u][k];
  }
  put(result, sum);
}

template <class T>
void add_sorted_rows(const embedding_backward<T>& op,
                     const row_sums& to,
                     const std::uint64_t* sorted,
                     const context& in) {
  constexpr int warps = scatter_threads / warp;
  const auto start = [&](auto width) {
    constexpr int W = width();
    const auto columns = unsigned(ceil_div(op.C, warp * W));
    const dim3 rows(unsigned(ceil_div(op.R, warps)), columns);
    const dim3 parts(unsigned(ceil_div(ceil_div(op.R, part), warps)), columns);
    launch(in, rows, scatter_threads, add_rows_kernel<T, W>, to, sorted, op.dy, op.R, op.C);
    if (op.R > part)
      launch(in, parts, scatter_threads, add_parts_kernel<W>, to, sorted, op.R, op.C);
  };
  if (op.C % wide<T> == 0 && all_aligned(to.table, op.dy))
    start(width_of<wide<T>>());
  else
    start(width_of<1>());
}

template <class T>
void run_op(const embedding_backward<T>& op, const context& in) {
  auto* const keys = scratch_array<std::uint64_t>(in, scratch(op));
  auto* const parts = reinterpret_cast<float*>(keys + op.R * (op.dposition_table ? 4 : 2));
  if (!op.accumulates && op.rows > 0 && op.C > 0)
    check(cudaMemsetAsync(op.dtable, 0, sizeof(float) * std::size_t(op.rows * op.C), queue_of(in)),
          "clearing the gradient of an embedding");
  if (op.R == 0 || op.C == 0)
    return;
  scattered_pair pair;
  pair.of[0] = {op.id, op.first, op.rows, keys, keys + op.R};
  const unsigned tables = op.dposition_table ? 2 : 1;
  if (op.dposition_table)
    pair.of[1] = {
        op.position, 0, std::numeric_limits<std::int32_t>::max(), keys + 2 * op.R, keys + 3 * op.R};
  const dim3 tiles(unsigned(ceil_div(op.R, sort_tile)), tables);
  const dim3 places(unsigned(ceil_div(op.R, place_threads)), tables);
  launch(in, tiles, sort_threads, sort_tiles_kernel, pair, op.R);
  launch(in, places, place_threads, place_keys_kernel, pair, op.R);
  add_sorted_rows(op, {op.dtable, parts}, pair.of[0].sorted, in);
  if (op.dposition_table)
    add_sorted_rows(op, {op.dposition_table, parts}, pair.of[1].sorted, in);
}

}  // namespace

template <class T>
std::size_t scratch(const embedding_backward<T>& op) {
  const std::int64_t parts = op.R > part ? ceil_div(op.R, part) * op.C : 0;
  return sizeof(std::uint64_t) * std::size_t(op.R) * (op.dposition_table ? 4 : 2)
         + sizeof(float) * std::size_t(parts);
}

#define TROUPE_INSTANTIATE(T)                                    \
  template std::size_t scratch(const embedding_backward<T>&);    \
  template <>                                                    \
  void run(const embedding_forward<T>& op, const context& in) {  \
    run_op(op, in);                                              \
  }                                                              \
  template <>                                                    \
  void run(const embedding_backward<T>& op, const context& in) { \
    run_op(op, in);                                              \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
