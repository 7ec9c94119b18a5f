// Grouped products. Uses own kernels, because cuBLASLt measures each new number of rows.
//
// A block computes a tile of a result (product_tile.cuh). The tiles of all groups are numbered, and
// a table in the kernel's parameters says where those of a group begin.

#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/product_tile.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

__device__ __forceinline__ int at_most(std::int64_t n, int most) {
  return int(n < most ? n : most);
}

/// The rows of a group. Its tiles are numbered column by column, so neighbours share a part of the
/// weight.
struct group_piece {
  std::int64_t first;  ///< tile
  std::int64_t begin, rows;
  std::int64_t expert;
};

/// y = x weight^T + bias, or dx = dy weight. Forward: the weight is (N, K), its rows are columns of
/// the result.
template <bool Forward, bool Whole, class T>
__global__ void __launch_bounds__(tile_threads)
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
__global__ void __launch_bounds__(tile_threads)
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
    __syncthreads();  // all threads have read the shared tiles
    to.accumulates = true;
  }
  if (to.accumulates)
    return;
  for (int i = int(threadIdx.x); i < tile_rows * tile_columns; i += tile_threads)
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
        launch(
            in, unsigned(tiles), tile_threads, kernel, table, y, x, weight, bias, columns, terms);
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
  for (std::int64_t e = 0; e < op.E; ++e)
    op.groups.each_of(e, [&](std::int64_t begin, std::int64_t rows, bool first) {
      run(bias_backward<T>{.dbias = op.dbias + e * op.N,
                           .dz = op.dy + begin * op.N,
                           .R = rows,
                           .N = op.N,
                           .accumulates = op.bias_accumulates || !first},
          in);
    });
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
      launch(
          in, grid, tile_threads, kernel, list, op.dweight, op.dy, op.x, op.N, op.K, accumulates);
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
