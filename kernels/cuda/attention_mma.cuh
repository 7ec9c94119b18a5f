// What both passes of attention on tensor cores share.
//
// A block of four warps has 64 rows, a warp 16 of them: queries forward and for dq, keys for dk and
// dv. These are left operands, in registers. What the block goes over (keys and values, or queries
// and gradients) are right operands, in shared memory, copied there while the block computes.
// Scores stay in registers: what a product leaves there is, rounded to 16 bits, what the next one
// takes from the left. All sums are fp32.
//
// Dp is D, filled up with zeros: 64, 128 or 256.
//
// Dao: "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.

#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_choice.hpp"
#include "kernels/cuda/mma.cuh"

namespace troupe::kernels::cuda {

constexpr int mma_threads = 128;
constexpr int mma_rows = 16;  ///< of a warp

/// Where a lane's elements stand in what tensor cores take and give (mma.cuh).
struct lane_place {
  int row = int(threadIdx.x) / warp * mma_rows + int(threadIdx.x) % warp / 4;  ///< and 8 further
  int column = int(threadIdx.x) % 4 * 2;                                       ///< and the next one
};

/// Rounded; the first in the low half.
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

/// Where eight elements of a row lie, in units of 16 bytes: turned by the row, so that eight rows
/// that are read at once lie in different banks.
template <int Dp>
__device__ __forceinline__ int chunk_place(int row, int chunk) {
  return row * (Dp / 8) + (chunk ^ (row & 7));
}

// Who reads has one row of every eight, and chunks of which all but the last bit is a constant: a
// lane's `turn` is that bit and its row's, and the place of a chunk one operation.

/// Begins to copy rows to (Rows, Dp). What is not there is 0.
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

/// Begins to copy numbers of 4 bytes, one for each of Rows rows.
template <int Rows, class Number>
__device__ __forceinline__ void copy_numbers(
    async_copies& copies, Number* to, const Number* from, std::int64_t stride, int rows) {
  static_assert(sizeof(Number) == 4);
  const int i = int(threadIdx.x);
  if (i < Rows)
    copies.copy_4_bytes(to + i, i < rows ? from + i * stride : from, i < rows);
}

/// Which probabilities of (Rows queries, Columns keys) dropout keeps, a bit for each: to `kept`
/// (Rows, Columns / 8). The same words decide as in the scalar kernels.
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

/// The 16 rows of a warp, in the device's memory. What is not there is 0.
template <class T>
class rows_in_memory {
 public:
  /// `from`: the first of the block's `rows`.
  __device__ __forceinline__ rows_in_memory(const T* from, std::int64_t stride, int rows, int D) {
    const lane_place at;
    low_ = from + at.row * stride + at.column;
    high_ = low_ + 8 * stride;
    low_columns_ = at.row < rows ? D - at.column : 0;
    high_columns_ = at.row + 8 < rows ? D - at.column : 0;
  }
  /// Columns [16 k, 16 k + 16).
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
  int low_columns_, high_columns_;  ///< that there are from here on
};

/// The same, kept in registers.
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

/// The same in shared memory (64, Dp).
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

/// Kept where registers hold them.
template <class T, int Dp>
using left_rows = std::conditional_t<Dp == 256, rows_in_memory<T>, kept_rows<T, Dp>>;

// --- products -----------------------------------------------------------------------------------

/// out (16 rows of the warp, 8 N) += left right^T: `right` has 8 N rows (8 N, Dp).
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

/// out (16 rows of the warp, 8 N) += weights right: `right` has 8 M rows, of which the columns from
/// 8 `chunk` on are taken, an even number. Weights are rounded to T.
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

/// Writes columns [first, first + 8 N) of the first `rows` rows, each times the factor of its half.
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

/// As tensor_cores_take, of the shape and of all pointers to rows of heads.
template <class T>
bool tensor_cores_take_rows(const attention_shape& a, std::initializer_list<const T*> arrays) {
  constexpr std::int64_t least = 16;
  return sizeof(T) == 2 && a.longest_query >= least && work_of<T>(a, arrays).vectors;
}

// attention_mma_forward.cu, attention_mma_backward.cu: of bf16 and f16.

template <class T>
void forward_on_tensor_cores(const attention_forward<T>& op,
                             const attention_work& a,
                             const context& in);

/// `center` (query rows, H) has D of each row and head, `spans` the positions of each tile of
/// queries.
template <class T>
void backward_on_tensor_cores(const attention_backward<T>& op,
                              const attention_work& a,
                              const float* center,
                              const span* spans,
                              const context& in);

}  // namespace troupe::kernels::cuda
