// A tile of a matrix product, computed by one block: on tensor cores for 16-bit factors, else with
// multiply-adds of fp32. Sums run over all terms in order, on tensor cores 16 at a time. So bits do
// not depend on the other tiles.

#pragma once

#include "kernels/cuda/each.cuh"
#include "kernels/cuda/mma.cuh"

namespace troupe::kernels::cuda {

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
constexpr int tile_threads = 128;  ///< two by two warps, each 32 by 64 of the tile

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
    for (int i = 0; i < rows * chunks / tile_threads; ++i) {
      const int item = i * tile_threads + int(threadIdx.x);
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
    __syncthreads();  // the tiles are complete; all threads have read the other pair
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
          for (int i = int(threadIdx.x); i < n * float_terms; i += tile_threads) {
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

}  // namespace troupe::kernels::cuda
