#include "kernels/cuda/attention_mma.cuh"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

template <int Dp>
constexpr int forward_keys = Dp == 256 ? 32 : 64;  ///< at a time, within 48 KiB of shared memory
template <int Dp>
[[maybe_unused]] constexpr int forward_blocks = Dp == 64    ? 3
                                                : Dp == 128 ? 2
                                                            : 2;  ///< limited by registers

template <int Dp>
struct forward_memory {
  alignas(16) uint4 keys[forward_keys<Dp> * Dp / 8];
  alignas(16) uint4 values[forward_keys<Dp> * Dp / 8];
  std::int32_t query_position[tile], key_position[forward_keys<Dp>];
  unsigned char kept[tile * forward_keys<Dp> / 8];
};

/// Running maximum of a lane's two rows, and the sums relative to it.
struct running_rows {
  float highest[2] = {-infinity, -infinity};
  float sum[2] = {0, 0};
};

/// Turns scores into probabilities times 2^highest and rescales the sums to the new maximum.
template <int N, int M>
__device__ __forceinline__ void soften_rows(float (&s)[N][4],
                                            running_rows& so_far,
                                            float (&o)[M][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = so_far.highest[half];
#pragma unroll
    for (int n = 0; n < N; ++n)
      top = fmaxf(top, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
#pragma unroll
    for (int step = 2; step > 0; step /= 2)  // the four lanes of the row
      top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, step));
    // If no key was visible, the difference of two infinities would be NaN.
    const float center = top == -infinity ? 0.0F : top;
    const float shrink = exp2f(so_far.highest[half] - center);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[n][i] = exp2f(s[n][i] - center);
        sum += s[n][i];
      }
    so_far.highest[half] = top;
    so_far.sum[half] = so_far.sum[half] * shrink + sum;  // over this lane's columns
#pragma unroll
    for (int m = 0; m < M; ++m) {
      o[m][2 * half] *= shrink;
      o[m][2 * half + 1] *= shrink;
    }
  }
}

template <class T, int Dp>
__global__ void __launch_bounds__(mma_threads, forward_blocks<Dp>)
    forward_mma(const attention_forward<T> op, const attention_work a) {
  constexpr int at_hand = forward_keys<Dp>, N = at_hand / 8;
  __shared__ forward_memory<Dp> own;

  // Reverse order: with causality the last tiles have the most keys and should start first.
  const tile_place at = find_tile(a.query_starts, a.S, int(gridDim.x - 1 - blockIdx.x));
  if (at.rows <= 0)
    return;
  const int h = int(blockIdx.y), per_group = int(a.H / a.G), g = h / per_group;
  const int D = int(a.D), Dv = int(a.Dv);
  const int first_key = a.key_starts[at.s];
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const T* k = op.k + first_key * a.key_row + g * a.key_group;
  const T* v = op.v + first_key * a.value_row + g * a.value_group;
  const left_rows<T, Dp> q(
      op.q + at.first * a.query_row + g * a.query_group + (h - g * per_group) * a.D,
      a.query_row,
      at.rows,
      D);

  if (threadIdx.x < tile)
    own.query_position[threadIdx.x]
        = int(threadIdx.x) < at.rows ? a.query_position[at.first + threadIdx.x] : 0;
  __syncthreads();
  const span queries = span_of(own.query_position, at.rows);
  const int begin = keys_begin(a, keys, queries) * tile;
  const int end = min(keys_end(a, keys, queries) * tile, keys.rows);

  async_copies copies;
  const auto copy_keys = [&](int from) {
    const int n = min(at_hand, keys.rows - from);
    copy_rows<at_hand, Dp>(copies, own.keys, k + from * a.key_row, a.key_row, n, D);
    copy_numbers<at_hand>(copies, own.key_position, keys.positions + from, 1, n);
  };
  if (begin < end)
    copy_keys(begin);

  const lane_place mine;
  float o[Dp / 8][4] = {};
  running_rows so_far;
#pragma unroll 1
  for (int from = begin; from < end; from += at_hand) {
    const int n = min(at_hand, keys.rows - from);
    copies.wait();
    __syncthreads();  // keys are complete, and all are done with the previous values
    copy_rows<at_hand, Dp>(copies, own.values, v + from * a.value_row, a.value_row, n, Dv);
    if (a.p_drop > 0)
      draw_kept<tile, at_hand>(
          a, a.sample[at.s], h, own.query_position, own.key_position, own.kept);
    float s[N][4] = {};
    add_scores_of<T, Dp>(s, q, own.keys);
    const bool whole
        = n == at_hand && all_seen(a, queries, {own.key_position[0], own.key_position[n - 1]});
#pragma unroll
    for (int c = 0; c < N; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = mine.row + i / 2 * 8, column = 8 * c + mine.column + i % 2;
        s[c][i] *= a.scale2;
        if (!whole && (column >= n || !seen(a, own.query_position[row], own.key_position[column])))
          s[c][i] = -infinity;
      }
    soften_rows(s, so_far, o);
    copies.wait();
    __syncthreads();  // values and dropout bits are complete, and all are done with the keys
    if (from + at_hand < end)
      copy_keys(from + at_hand);
    if (a.p_drop > 0) {
#pragma unroll
      for (int c = 0; c < N; ++c)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const unsigned bits = own.kept[(mine.row + i / 2 * 8) * N + c];
          s[c][i] = bits >> (mine.column + i % 2) & 1 ? s[c][i] : 0.0F;
        }
    }
    add_weighted_rows<T, Dp>(o, s, own.values, 0);
  }

  float* const lse = op.lse + lse_of(a, at.s, h, at.first);
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = so_far.sum[half];
#pragma unroll
    for (int step = 2; step > 0; step /= 2)
      sum += __shfl_xor_sync(0xffffffffU, sum, step);
    factor[half] = sum == 0 ? 0.0F : a.rest / sum;
    const int row = mine.row + 8 * half;
    if (row < at.rows && mine.column == 0)
      lse[row] = sum == 0 ? -infinity : (so_far.highest[half] + log2f(sum)) / log2_e;
  }
  write_result(
      o, factor, op.o + (std::int64_t{at.first} * a.H + h) * a.Dv, a.H * a.Dv, at.rows, 0, Dv);
}

template <class T, int Dp>
void launch_forward(const attention_forward<T>& op, const attention_work& a, const context& in) {
  launch(in,
         dim3(unsigned(tile_numbers(a.query_rows, a.S)), unsigned(a.H)),
         dim3(mma_threads),
         forward_mma<T, Dp>,
         op,
         a);
}

}  // namespace

template <class T>
void forward_on_tensor_cores(const attention_forward<T>& op,
                             const attention_work& a,
                             const context& in) {
  const std::int64_t largest = std::max(a.D, a.Dv);
  if (largest <= 64)
    launch_forward<T, 64>(op, a, in);
  else if (largest <= 128)
    launch_forward<T, 128>(op, a, in);
  else
    launch_forward<T, 256>(op, a, in);
}

template void forward_on_tensor_cores(const attention_forward<bf16>&,
                                      const attention_work&,
                                      const context&);
template void forward_on_tensor_cores(const attention_forward<f16>&,
                                      const attention_work&,
                                      const context&);

}  // namespace troupe::kernels::cuda
