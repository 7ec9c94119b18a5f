// Common parts of the attention kernels on tensor cores.
//
// A block of four warps has 64 rows, 16 per warp: queries in the forward pass and for dq, keys for
// dk and dv. These are left operands, in registers. The rows that the block iterates over (keys and
// values, or queries and gradients) are right operands in shared memory. They are copied there
// while the block computes. Scores stay in registers: the result of one product, rounded to 16
// bits, is the left operand of the next. All sums are fp32.
//
// Dp is the larger of D and Dv, padded with zeros to 64, 128 or 256.
//
// Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
// 2023.

#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_choice.hpp"
#include "kernels/cuda/mma.cuh"

namespace troupe::kernels::cuda {

constexpr int mma_threads = 128;
constexpr int mma_rows = 16;  ///< per warp

/// Rows and columns of a lane's elements in operands and results of tensor cores (mma.cuh).
struct lane_place {
  int row = int(threadIdx.x) / warp * mma_rows + int(threadIdx.x) % warp / 4;  ///< also row + 8
  int column = int(threadIdx.x) % 4 * 2;                                       ///< also column + 1
};

/// Two rounded elements; the first is in the low half.
template <class T>
__device__ __forceinline__ unsigned pair_of(float first, float second) {
  unsigned out;
  if constexpr (std::is_same_v<T, bf16>) {
    const auto two = __floats2bfloat162_rn(first, second);
    memcpy(&out, &two, sizeof(out));
  } else {
    const auto two = __floats2half2_rn(first, second);
    memcpy(&out, &two, sizeof(out));
  }
  return out;
}

// --- shared memory ------------------------------------------------------------------------------

/// Place of eight elements of a row, in units of 16 bytes. The row number permutes the chunks, so
/// that eight rows that are read together lie in different banks.
template <int Dp>
__device__ __forceinline__ int chunk_place(int row, int chunk) {
  return row * (Dp / 8) + (chunk ^ (row & 7));
}

// A reader has one of every eight rows, and all but the last bit of its chunk is constant. So a
// lane's `turn` combines that bit with its row, and one XOR gives the place of a chunk.

/// Starts copying rows to (Rows, Dp), padded with 0.
template <int Rows, int Dp, class T>
__device__ __forceinline__ void copy_rows(
    async_copies& copies, uint4* to, const T* from, std::int64_t stride, int rows, int D) {
  constexpr int chunks = Dp / 8;
#pragma unroll
  for (int i = 0; i < Rows * chunks / mma_threads; ++i) {
    const int item = i * mma_threads + int(threadIdx.x), row = item / chunks, c = item % chunks;
    const bool there = row < rows && c * 8 < D;
    copies.copy_16_bytes(
        to + chunk_place<Dp>(row, c), there ? from + row * stride + c * 8 : from, there);
  }
}

/// Starts copying one 4-byte number per row.
template <int Rows, class Number>
__device__ __forceinline__ void copy_numbers(
    async_copies& copies, Number* to, const Number* from, std::int64_t stride, int rows) {
  static_assert(sizeof(Number) == 4);
  const int i = int(threadIdx.x);
  if (i < Rows)
    copies.copy_4_bytes(to + i, i < rows ? from + i * stride : from, i < rows);
}

/// Dropout mask of (Rows queries, Columns keys), one bit each, to `kept` (Rows, Columns / 8). It
/// uses the same random words as the scalar kernels.
template <int Rows, int Columns>
__device__ __forceinline__ void draw_kept(const attention_work& a,
                                          std::uint64_t sample,
                                          int head,
                                          const std::int32_t* query_position,
                                          const std::int32_t* key_position,
                                          unsigned char* kept) {
  constexpr int each = Rows * Columns / mma_threads, threads_of_row = Columns / each;
  static_assert(each % 8 == 0 && each <= 32);
  const int row = int(threadIdx.x) / threads_of_row;
  const int first = int(threadIdx.x) % threads_of_row * each;
  const unsigned bits = kept_keys(a, sample, head, query_position[row], key_position + first, each);
#pragma unroll
  for (int b = 0; b < each / 8; ++b)
    kept[row * (Columns / 8) + first / 8 + b] = static_cast<unsigned char>(bits >> (8 * b));
}

// --- left operands ------------------------------------------------------------------------------

/// The 16 rows of a warp in device memory, padded with 0.
template <class T>
class rows_in_memory {
 public:
  /// `from`: first of the block's `rows` rows.
  __device__ __forceinline__ rows_in_memory(const T* from, std::int64_t stride, int rows, int D) {
    const lane_place at;
    low_ = from + at.row * stride + at.column;
    high_ = low_ + 8 * stride;
    low_columns_ = at.row < rows ? D - at.column : 0;
    high_columns_ = at.row + 8 < rows ? D - at.column : 0;
  }
  /// Loads columns [16 k, 16 k + 16).
  __device__ __forceinline__ void fetch(int k, unsigned (&x)[4]) const {
    x[0] = 16 * k < low_columns_ ? pair_at(low_ + 16 * k) : 0;
    x[1] = 16 * k < high_columns_ ? pair_at(high_ + 16 * k) : 0;
    x[2] = 16 * k + 8 < low_columns_ ? pair_at(low_ + 16 * k + 8) : 0;
    x[3] = 16 * k + 8 < high_columns_ ? pair_at(high_ + 16 * k + 8) : 0;
  }

 private:
  __device__ __forceinline__ static unsigned pair_at(const T* at) {
    return *reinterpret_cast<const unsigned*>(at);
  }

  const T *low_, *high_;
  int low_columns_, high_columns_;  ///< remaining columns from here
};

/// The 16 rows of a warp in registers.
template <class T, int Dp>
class kept_rows {
 public:
  __device__ __forceinline__ kept_rows(const T* from, std::int64_t stride, int rows, int D) {
    const rows_in_memory<T> memory(from, stride, rows, D);
#pragma unroll
    for (int k = 0; k < Dp / 16; ++k)
      memory.fetch(k, x_[k]);
  }
  __device__ __forceinline__ void fetch(int k, unsigned (&x)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = x_[k][i];
  }

 private:
  unsigned x_[Dp / 16][4];
};

/// The 16 rows of a warp in shared memory (64, Dp).
template <int Dp>
class shared_rows {
 public:
  __device__ __forceinline__ explicit shared_rows(const uint4* from) {
    const int lane = int(threadIdx.x) % warp, row = int(threadIdx.x) / warp * mma_rows;
    from_ = from + (row + lane % 16) * (Dp / 8);
    turn_ = (lane / 16) ^ (lane % 8);
  }
  __device__ __forceinline__ void fetch(int k, unsigned (&x)[4]) const {
    load_matrices(x, from_ + ((2 * k) ^ turn_));
  }

 private:
  const uint4* from_;
  int turn_;
};

/// Rows of the left factor, in registers if they fit.
template <class T, int Dp>
using left_rows = std::conditional_t<Dp == 256, rows_in_memory<T>, kept_rows<T, Dp>>;

// --- products -----------------------------------------------------------------------------------

/// out (16 rows of the warp, 8 N) += left right^T; `right` is (8 N, Dp).
template <class T, int Dp, int N, class Left>
__device__ __forceinline__ void add_scores_of(float (&out)[N][4],
                                              const Left& left,
                                              const uint4* right) {
  static_assert(N % 2 == 0);
  const int lane = int(threadIdx.x) % warp, turn = (lane / 8 % 2) ^ (lane % 8);
  right += (lane / 16 * 8 + lane % 8) * (Dp / 8);
#pragma unroll
  for (int k = 0; k < Dp / 16; ++k) {
    unsigned x[4];
    left.fetch(k, x);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      unsigned y[4];
      load_matrices(y, right + ((2 * k) ^ turn) + n * Dp);
      multiply_add<T>(out[n], x, y[0], y[1]);
      multiply_add<T>(out[n + 1], x, y[2], y[3]);
    }
  }
}

/// out (16 rows of the warp, 8 N) += weights right; `right` has 8 M rows, of which it takes columns
/// from 8 * `chunk` on; `chunk` is even. Weights are rounded to T.
template <class T, int Dp, int M, int N>
__device__ __forceinline__ void add_weighted_rows(float (&out)[N][4],
                                                  const float (&weights)[M][4],
                                                  const uint4* right,
                                                  int chunk) {
  static_assert(M % 2 == 0 && N % 2 == 0);
  const int lane = int(threadIdx.x) % warp, turn = (lane / 16) ^ (lane % 8);
  right += lane % 16 * (Dp / 8);
#pragma unroll
  for (int m = 0; m < M; m += 2) {
    const unsigned x[4] = {pair_of<T>(weights[m][0], weights[m][1]),
                           pair_of<T>(weights[m][2], weights[m][3]),
                           pair_of<T>(weights[m + 1][0], weights[m + 1][1]),
                           pair_of<T>(weights[m + 1][2], weights[m + 1][3])};
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      unsigned y[4];
      load_transposed(y, right + ((chunk + n) ^ turn) + m * Dp);
      multiply_add<T>(out[n], x, y[0], y[1]);
      multiply_add<T>(out[n + 1], x, y[2], y[3]);
    }
  }
}

/// Writes columns [first, first + 8 N) of the first `rows` rows, multiplied by the factor of their
/// half.
template <int N, class T>
__device__ __forceinline__ void write_result(const float (&x)[N][4],
                                             const float (&factor)[2],
                                             T* to,
                                             std::int64_t stride,
                                             int rows,
                                             int first,
                                             int D) {
  const lane_place at;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = at.row + 8 * half;
    if (row >= rows)
      continue;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int column = first + 8 * n + at.column;
      if (column < D)
        *reinterpret_cast<unsigned*>(to + row * stride + column)
            = pair_of<T>(x[n][2 * half] * factor[half], x[n][2 * half + 1] * factor[half]);
    }
  }
}

// --- on the host --------------------------------------------------------------------------------

/// True if tensor cores can compute this shape with these pointers to rows of heads.
template <class T>
bool tensor_cores_take_rows(const attention_shape& a, std::initializer_list<const T*> arrays) {
  constexpr std::int64_t least = 16;
  return sizeof(T) == 2 && a.longest_query >= least && work_of<T>(a, arrays).vectors;
}

// Defined in attention_mma_forward.cu and attention_mma_backward.cu for bf16 and f16.

template <class T>
void forward_on_tensor_cores(const attention_forward<T>& op,
                             const attention_work& a,
                             const context& in);

/// `center` (query rows, H): delta of each row and head. `spans`: position range of each query
/// tile.
template <class T>
void backward_on_tensor_cores(const attention_backward<T>& op,
                              const attention_work& a,
                              const float* center,
                              const span* spans,
                              const context& in);

}  // namespace troupe::kernels::cuda
