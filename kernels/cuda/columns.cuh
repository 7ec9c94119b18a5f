// Column sums over all rows of a matrix, without atomics. Blocks of rows first write a partial sum
// per column to the workspace; a second kernel adds these in order.
//
// The division into blocks depends on the shape only. A body handles `width` neighbouring columns
// of a row at a time, has `sums` sums per column, and loads `unroll` rows before it adds them:
//
//   inputs load(std::int64_t r, std::int64_t c) const;
//   void add(const inputs&, float (&to)[sums][width]) const;

#pragma once

#include "kernels/cuda/device.cuh"

namespace troupe::kernels::cuda {

constexpr int columns_threads = 256;
constexpr int columns_blocks = 4;  ///< per multiprocessor at a time

/// Division of R rows of C columns into blocks. `width`: columns per load with vector loads; scalar
/// loads use the same division. There are at most as many blocks as a device runs at once, with at
/// least 64 rows each. So partial sums are a few percent of the data.
struct row_blocks {
  std::int64_t rows;   ///< per block
  std::int64_t count;  ///< number of blocks

  constexpr row_blocks(std::int64_t R, std::int64_t C, int width) {
    const std::int64_t beside = ceil_div(C > 0 ? C : 1, warp * width);
    const std::int64_t places = columns_blocks * processors;
    const std::int64_t wanted = beside < places ? places / beside : 1;
    rows = ceil_div(R, wanted) < 64 ? 64 : ceil_div(R, wanted);
    count = ceil_div(R, rows);
  }
  std::size_t scratch(std::int64_t C, int sums) const {
    return sizeof(float) * std::size_t(count * C * sums);
  }
};

/// Number of blocks over all columns with `width` columns per load.
constexpr std::int64_t column_blocks(std::int64_t R, std::int64_t C, int width) {
  return row_blocks(R, C, width).count * ceil_div(C, warp * width);
}
static_assert(column_blocks(65536, 768, 8) == columns_blocks * processors);
static_assert(column_blocks(65536, 4096, 8) == columns_blocks * processors);
static_assert(column_blocks(65536, 5120, 8) <= columns_blocks * processors);
static_assert(column_blocks(65536, 5120, 4) <= columns_blocks * processors);

/// partial_sums: (blocks, sums, C). Lanes neighbouring threads cover Lanes * width columns; the
/// other threads of the block take other rows of the same columns.
template <int Lanes, class Body>
__global__ void __launch_bounds__(columns_threads, columns_blocks) columns_kernel(
    const Body body, std::int64_t R, std::int64_t C, std::int64_t rows, float* partial_sums) {
  constexpr int W = Body::width, slots = columns_threads / Lanes, unroll = Body::unroll;
  const int lane = int(threadIdx.x) % Lanes, slot = int(threadIdx.x) / Lanes;
  const std::int64_t c = (std::int64_t{blockIdx.x} * Lanes + lane) * W;
  const std::int64_t begin = blockIdx.y * rows, end = begin + rows < R ? begin + rows : R;

  float sum[Body::sums][W] = {};
  if (c < C)
    for (std::int64_t r = begin + slot; r < end; r += slots * unroll) {
      typename Body::inputs in[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u)
        if (r + u * slots < end)
          in[u] = body.load(r + u * slots, c);
#pragma unroll
      for (int u = 0; u < unroll; ++u)
        if (r + u * slots < end)
          body.add(in[u], sum);
    }

  __shared__ float of_slot[slots][Lanes * W];
#pragma unroll
  for (int s = 0; s < Body::sums; ++s) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < W; ++k)
      of_slot[slot][lane * W + k] = sum[s][k];
    __syncthreads();
    const std::int64_t column = std::int64_t{blockIdx.x} * Lanes * W + threadIdx.x;
    if (threadIdx.x < Lanes * W && column < C) {
      float total = of_slot[0][threadIdx.x];
#pragma unroll
      for (int k = 1; k < slots; ++k)
        total += of_slot[k][threadIdx.x];
      partial_sums[(std::int64_t{blockIdx.y} * Body::sums + s) * C + column] = total;
    }
  }
}

/// Destination of column sums: added to it, or overwritten.
struct column_totals {
  float* to = nullptr;
  bool accumulates = true;
};

/// total[c] += partial sums of column c; columns from C on go to `second`.
template <int Slots>
__global__ void __launch_bounds__(warp* Slots) add_columns_kernel(column_totals first,
                                                                  column_totals second,
                                                                  const float* partial_sums,
                                                                  std::int64_t blocks,
                                                                  std::int64_t C,
                                                                  std::int64_t columns) {
  const int lane = int(threadIdx.x) % warp, slot = int(threadIdx.x) / warp;
  const std::int64_t c = std::int64_t{blockIdx.x} * warp + lane;
  float sum = 0;
  if (c < columns)
#pragma unroll 4
    for (std::int64_t b = slot; b < blocks; b += Slots)
      sum += partial_sums[b * columns + c];
  __shared__ float of_slot[Slots][warp];
  of_slot[slot][lane] = sum;
  __syncthreads();
  if (slot != 0 || c >= columns)
    return;
#pragma unroll
  for (int k = 1; k < Slots; ++k)
    sum += of_slot[k][lane];
  const column_totals& total = c < C ? first : second;
  float* const to = total.to + (c < C ? c : c - C);
  *to = (total.accumulates ? *to : 0.0f) + sum;
}

/// first[c] += the first sums of the columns; second[c] += the second sums, if any.
template <class Body>
void add_columns(const context& in,
                 const Body& body,
                 std::int64_t R,
                 std::int64_t C,
                 const row_blocks& blocks,
                 const column_totals& first,
                 const column_totals& second = {}) {
  auto* const partial_sums = scratch_array<float>(in, blocks.scratch(C, Body::sums));
  if (C == 0)
    return;
  if (R == 0) {
    for (const column_totals& total : {first, second})
      if (total.to != nullptr && !total.accumulates)
        check(cudaMemsetAsync(total.to, 0, sizeof(float) * std::size_t(C), queue_of(in)),
              "clearing the sums of columns");
    return;
  }
  const std::int64_t steps = C / Body::width;
  const auto start = [&](auto lanes, auto* kernel) {
    const dim3 grid(unsigned(ceil_div(steps, lanes)), unsigned(blocks.count));
    launch(in, grid, columns_threads, kernel, body, R, C, blocks.rows, partial_sums);
  };
  if (steps <= 8)
    start(8, columns_kernel<8, Body>);
  else if (steps <= 16)
    start(16, columns_kernel<16, Body>);
  else
    start(warp, columns_kernel<warp, Body>);

  constexpr int slots = 16;
  const std::int64_t columns = C * Body::sums;
  launch(in,
         unsigned(ceil_div(columns, warp)),
         warp * slots,
         add_columns_kernel<slots>,
         first,
         second,
         partial_sums,
         blocks.count,
         C,
         columns);
}

}  // namespace troupe::kernels::cuda
