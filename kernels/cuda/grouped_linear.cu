// Grouped products: own kernels, because cuBLASLt would measure each new number of rows.
//
// A block computes a tile of a result. The tiles of all groups are numbered, and a table in the
// kernel's parameters says where those of a group begin. Sums run over all terms in order, 16 at a
// time on tensor cores, so bits do not depend on the other groups.

#include "kernels/cuda/each.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

/// A factor in memory, (across, terms): rows of the result for the left one, columns for the right.
template <class T>
struct factor {
  const T* data;
  std::int64_t row;  ///< elements between rows in memory
  int across;        ///< rows or columns that exist
};

/// A tile of the result in memory.
template <class Out>
struct result_tile {
  Out* data;         ///< of its first element
  std::int64_t row;  ///< elements between rows
  int rows, columns;
  const Out* bias = nullptr;  ///< of its first column; or null
  bool accumulates = false;

  __device__ __forceinline__ void write(int r, int c, float sum) const {
    if (r >= rows || c >= columns)
      return;
    Out* const to = data + r * row + c;
    if (bias)
      sum += to_float(bias[c]);
    if (accumulates)
      sum += to_float(*to);
    *to = from_float<Out>(sum);
  }
};

// --- tensor cores ------------------------------------------------------------------------------

constexpr int tile_rows = 64, tile_columns = 128, tile_terms = 32;
constexpr int grouped_threads = 128;  ///< two by two warps, each 32 by 64 of the tile

/// A tile of a factor in shared memory, in the order of device memory. Along: each term is a row.
template <int Across, bool Along>
struct shared_factor {
  static constexpr int rows = Along ? tile_terms : Across;
  static constexpr int chunks = (Along ? Across : tile_terms) / 8;  ///< of a row, 16 bytes each
  uint4 data[rows * chunks];

  /// The row number permutes the chunks, so that eight rows that are read together lie in different
  /// banks.
  __device__ __forceinline__ static int place(int row, int chunk) {
    return row * chunks + (chunk ^ (chunks >= 8 ? row & 7 : row / 2 & 3));
  }

  /// Starts to load the terms from `term` on; elements that do not exist are 0. Whole: chunks exist
  /// as a whole and are aligned.
  template <bool Whole, class T>
  __device__ __forceinline__ void load(async_copies& copies,
                                       const factor<T>& from,
                                       std::int64_t term,
                                       std::int64_t terms) {
    const int deep = int(terms - term < tile_terms ? terms - term : tile_terms);
    const int high = Along ? deep : from.across, wide = Along ? from.across : deep;
    const T* const first = from.data + (Along ? term * from.row : term);
#pragma unroll
    for (int i = 0; i < rows * chunks / grouped_threads; ++i) {
      const int item = i * grouped_threads + int(threadIdx.x);
      const int row = item / chunks, column = item % chunks * 8;
      uint4* const to = data + place(row, item % chunks);
      const T* const at = first + row * from.row + column;
      if constexpr (Whole) {
        const bool there = row < high && column < wide;
        copies.copy_16_bytes(to, there ? at : from.data, there);
      } else {
        pack<T, 8> eight;
#pragma unroll
        for (int k = 0; k < 8; ++k)
          eight.x[k] = row < high && column + k < wide ? at[k] : from_float<T>(0.0f);
        store(reinterpret_cast<T*>(to), eight);
      }
    }
  }

  /// Registers of 16 rows of the left factor from `row` on, terms [16 k, 16 k + 16).
  __device__ __forceinline__ void left(unsigned (&x)[4], int row, int k) const {
    const int lane = int(threadIdx.x) % warp;
    if constexpr (Along)
      load_transposed(x, data + place(16 * k + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
    else
      load_matrices(x, data + place(row + lane % 16, 2 * k + lane / 16));
  }
  /// Registers of 16 columns of the right factor from `column` on: two of the first eight columns,
  /// then two of the others.
  __device__ __forceinline__ void right(unsigned (&y)[4], int column, int k) const {
    const int lane = int(threadIdx.x) % warp;
    if constexpr (Along)
      load_transposed(y, data + place(16 * k + lane % 16, column / 8 + lane / 16));
    else
      load_matrices(y, data + place(column + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
  }
};

/// Computes a tile. Factors begin at the tile's first row and column.
template <bool LeftAlong, bool RightAlong, bool Whole, class T, class Out>
__device__ __forceinline__ void multiply_tile(const factor<T>& left,
                                              const factor<T>& right,
                                              std::int64_t terms,
                                              const result_tile<Out>& to) {
  __shared__ shared_factor<tile_rows, LeftAlong> a[2];
  __shared__ shared_factor<tile_columns, RightAlong> b[2];
  const int mine = int(threadIdx.x) / warp, row = mine / 2 * 32, column = mine % 2 * 64;
  float sum[2][8][4] = {};
  async_copies copies;
  const auto load = [&](std::int64_t term, int turn) {
    a[turn].template load<Whole>(copies, left, term, terms);
    b[turn].template load<Whole>(copies, right, term, terms);
  };
  load(0, 0);
  int turn = 0;
  for (std::int64_t term = 0; term < terms; term += tile_terms, turn = 1 - turn) {
    copies.wait();
    __syncthreads();  // the tiles are complete, and all are done with the others
    if (term + tile_terms < terms)
      load(term + tile_terms, 1 - turn);
#pragma unroll
    for (int k = 0; k < tile_terms / 16; ++k) {
      unsigned x[2][4];
      a[turn].left(x[0], row, k);
      a[turn].left(x[1], row + 16, k);
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        unsigned y[4];
        b[turn].right(y, column + 8 * n, k);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_add<T>(sum[m][n], x[m], y[0], y[1]);
          multiply_add<T>(sum[m][n + 1], x[m], y[2], y[3]);
        }
      }
    }
  }
  const int lane = int(threadIdx.x) % warp;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to.write(row + 16 * m + lane / 4 + i / 2 * 8,
                 column + 8 * n + lane % 4 * 2 + i % 2,
                 sum[m][n][i]);
}

// --- fp32 --------------------------------------------------------------------------------------

constexpr int float_terms = 16;  ///< at a time

/// Computes a tile with multiply-adds of fp32: each thread has 8 by 8 elements.
template <bool LeftAlong, bool RightAlong, bool Whole, class Out>
__device__ __forceinline__ void multiply_tile(const factor<float>& left,
                                              const factor<float>& right,
                                              std::int64_t terms,
                                              const result_tile<Out>& to) {
  __shared__ float a[float_terms][tile_rows], b[float_terms][tile_columns];
  const int row = int(threadIdx.x) / 16, column = int(threadIdx.x) % 16;
  float sum[8][8] = {};
  const auto load
      = [&](auto along, auto across, float* shared, const factor<float>& from, std::int64_t term) {
          constexpr int n = across();
          for (int i = int(threadIdx.x); i < n * float_terms; i += grouped_threads) {
            const int t = along() ? i / n : i % float_terms, at = along() ? i % n : i / float_terms;
            const bool there = at < from.across && term + t < terms;
            shared[t * n + at] = !there    ? 0.0f
                                 : along() ? from.data[(term + t) * from.row + at]
                                           : from.data[at * from.row + term + t];
          }
        };
  for (std::int64_t term = 0; term < terms; term += float_terms) {
    load(std::bool_constant<LeftAlong>(), width_of<tile_rows>(), a[0], left, term);
    load(std::bool_constant<RightAlong>(), width_of<tile_columns>(), b[0], right, term);
    __syncthreads();
    for (int t = 0; t < float_terms; ++t) {
      float y[8];
#pragma unroll
      for (int n = 0; n < 8; ++n)
        y[n] = b[t][column + 16 * n];
#pragma unroll
      for (int m = 0; m < 8; ++m) {
        const float x = a[t][row + 8 * m];
#pragma unroll
        for (int n = 0; n < 8; ++n)
          sum[m][n] = fmaf(x, y[n], sum[m][n]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < 8; ++m)
#pragma unroll
    for (int n = 0; n < 8; ++n)
      to.write(row + 8 * m, column + 16 * n, sum[m][n]);
}

// --- results of groups -------------------------------------------------------------------------

__device__ __forceinline__ int at_most(std::int64_t n, int most) {
  return int(n < most ? n : most);
}

/// The tiles of a group: a column of them lies under the next, so that neighbours share a weight.
struct group_piece {
  std::int64_t first;  ///< tile
  std::int64_t begin, rows;
  std::int64_t expert;
};

/// y = x weight^T + bias, or dx = dy weight. Forward: the weight is (N, K), its rows are columns of
/// the result.
template <bool Forward, bool Whole, class T>
__global__ void __launch_bounds__(grouped_threads)
    group_tiles_kernel(const __grid_constant__ piece_table<group_piece> table,
                       T* y,
                       const T* x,
                       const T* weight,
                       const T* bias,
                       std::int64_t columns,
                       std::int64_t terms) {
  const group_piece& group = table.piece[table.find(blockIdx.x)];
  const std::int64_t number = blockIdx.x - group.first, high = ceil_div(group.rows, tile_rows);
  const std::int64_t row = number % high * tile_rows, column = number / high * tile_columns;
  const int rows = at_most(group.rows - row, tile_rows);
  const int wide = at_most(columns - column, tile_columns);
  const T* const from = weight + group.expert * columns * terms;
  multiply_tile<false, !Forward, Whole>(
      factor<T>{x + (group.begin + row) * terms, terms, rows},
      factor<T>{from + (Forward ? column * terms : column), Forward ? terms : columns, wide},
      terms,
      result_tile<T>{.data = y + (group.begin + row) * columns + column,
                     .row = columns,
                     .rows = rows,
                     .columns = wide,
                     .bias = bias ? bias + group.expert * columns + column : nullptr});
}

struct group_rows {
  std::int64_t begin;
  std::int32_t rows, expert;
};
/// Groups in their order, within the 4 KiB of kernel parameters.
struct group_list {
  static constexpr int most = 240;
  group_rows group[most];
  int count = 0;
};

/// dweight (+)= dy^T x of the listed groups, one after the other.
template <bool Whole, class T>
__global__ void __launch_bounds__(grouped_threads)
    weight_tiles_kernel(const __grid_constant__ group_list list,
                        float* dweight,
                        const T* dy,
                        const T* x,
                        std::int64_t N,
                        std::int64_t K,
                        bool accumulates) {
  const std::int64_t high = ceil_div(N, tile_rows);
  const std::int64_t row = blockIdx.x % high * tile_rows, column = blockIdx.x / high * tile_columns;
  const int rows = at_most(N - row, tile_rows), wide = at_most(K - column, tile_columns);
  const int expert = int(blockIdx.y);
  result_tile<float> to{.data = dweight + (expert * N + row) * K + column,
                        .row = K,
                        .rows = rows,
                        .columns = wide,
                        .accumulates = accumulates};
  for (int g = 0; g < list.count; ++g) {
    const group_rows& group = list.group[g];
    if (group.expert != expert)
      continue;
    multiply_tile<true, true, Whole>(factor<T>{dy + group.begin * N + row, N, rows},
                                     factor<T>{x + group.begin * K + column, K, wide},
                                     group.rows,
                                     to);
    __syncthreads();  // all are done with the shared tiles
    to.accumulates = true;
  }
  if (to.accumulates)
    return;
  for (int i = int(threadIdx.x); i < tile_rows * tile_columns; i += grouped_threads)
    to.write(i / tile_columns, i % tile_columns, 0);
}

// --- on the host -------------------------------------------------------------------------------

template <class Op, class... Pointers>
bool has_whole_chunks(const Op& op, Pointers... pointers) {
  return op.N % 8 == 0 && op.K % 8 == 0 && all_aligned(pointers...);
}

/// y (R, columns) of x (R, terms).
template <bool Forward, class T>
void multiply_groups(const row_groups& groups,
                     T* y,
                     const T* x,
                     const T* weight,
                     const T* bias,
                     std::int64_t columns,
                     std::int64_t terms,
                     bool whole,
                     const context& in) {
  in_tables<group_piece>(
      groups.G,
      [&](std::int64_t g) {
        return group_piece{
            .begin = groups.offsets[g], .rows = groups.rows(g), .expert = groups.expert[g]};
      },
      [&](const group_piece& group) {
        return ceil_div(group.rows, tile_rows) * ceil_div(columns, tile_columns);
      },
      [&](const piece_table<group_piece>& table, std::int64_t tiles, std::int64_t) {
        auto* const kernel
            = whole ? group_tiles_kernel<Forward, true, T> : group_tiles_kernel<Forward, false, T>;
        launch(in,
               unsigned(tiles),
               grouped_threads,
               kernel,
               table,
               y,
               x,
               weight,
               bias,
               columns,
               terms);
      });
}

template <class T>
void run_op(const grouped_linear_forward<T>& op, const context& in) {
  multiply_groups<true>(op.groups,
                        op.y,
                        op.x,
                        op.weight,
                        op.bias,
                        op.N,
                        op.K,
                        has_whole_chunks(op, op.x, op.weight),
                        in);
}

template <class T>
void run_op(const grouped_linear_backward_input<T>& op, const context& in) {
  multiply_groups<false>(op.groups,
                         op.dx,
                         op.dy,
                         op.weight,
                         static_cast<const T*>(nullptr),
                         op.K,
                         op.N,
                         has_whole_chunks(op, op.dy, op.weight),
                         in);
}

template <class T>
void add_biases(const grouped_linear_backward_weight<T>& op, const context& in) {
  for (std::int64_t e = 0; e < op.E; ++e) {
    bool accumulates = op.bias_accumulates;
    const auto add = [&](std::int64_t begin, std::int64_t rows) {
      run(bias_backward<T>{op.dbias + e * op.N, op.dy + begin * op.N, rows, op.N, accumulates}, in);
      accumulates = true;
    };
    for (std::int64_t g = 0; g < op.groups.G; ++g)
      if (op.groups.expert[g] == e)
        add(op.groups.offsets[g], op.groups.rows(g));
    if (!accumulates)  // an expert without groups
      add(0, 0);
  }
}

template <class T>
void run_op(const grouped_linear_backward_weight<T>& op, const context& in) {
  auto* const kernel = has_whole_chunks(op, op.dy, op.x) ? weight_tiles_kernel<true, T>
                                                         : weight_tiles_kernel<false, T>;
  const dim3 grid(unsigned(ceil_div(op.N, tile_rows) * ceil_div(op.K, tile_columns)),
                  unsigned(op.E));
  group_list list;
  bool accumulates = op.accumulates;
  const auto flush = [&] {
    if (list.count > 0 || !accumulates)
      launch(in,
             grid,
             grouped_threads,
             kernel,
             list,
             op.dweight,
             op.dy,
             op.x,
             op.N,
             op.K,
             accumulates);
    accumulates = true;
    list.count = 0;
  };
  for (std::int64_t g = 0; g < op.groups.G; ++g) {
    if (op.groups.rows(g) == 0)
      continue;
    list.group[list.count++]
        = {op.groups.offsets[g], std::int32_t(op.groups.rows(g)), op.groups.expert[g]};
    if (list.count == list.most)
      flush();
  }
  flush();
  if (op.dbias)
    add_biases(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const grouped_linear_backward_weight<T>& op) {
  std::size_t most = 0;
  for (std::int64_t g = 0; op.dbias && g < op.groups.G; ++g) {
    const bias_backward<T> of_group{op.dbias, op.dy, op.groups.rows(g), op.N};
    most = most < scratch(of_group) ? scratch(of_group) : most;
  }
  return most;
}

#define TROUPE_INSTANTIATE(T)                                                \
  template std::size_t scratch(const grouped_linear_backward_weight<T>&);    \
  template <>                                                                \
  void run(const grouped_linear_forward<T>& op, const context& in) {         \
    run_op(op, in);                                                          \
  }                                                                          \
  template <>                                                                \
  void run(const grouped_linear_backward_input<T>& op, const context& in) {  \
    run_op(op, in);                                                          \
  }                                                                          \
  template <>                                                                \
  void run(const grouped_linear_backward_weight<T>& op, const context& in) { \
    run_op(op, in);                                                          \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
