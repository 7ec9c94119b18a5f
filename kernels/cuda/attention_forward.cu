#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int rows = 8;  ///< of a thread
constexpr int threads = tile / rows * 16;
template <int Dp>
constexpr int blocks = Dp == 64    ? 4
                       : Dp == 128 ? 3
                                   : 1;  ///< of a multiprocessor, by registers

/// The softmax of the rows so far, in shared memory: registers are for what is multiplied.
struct running {
  float highest[tile];
  float sum[tile];
};

/// Scores become probabilities times 2^highest; what was added up under a lower maximum shrinks.
template <int Dp>
__device__ __forceinline__ void soften(float (&s)[rows][4],
                                       running& so_far,
                                       float (&o)[rows][Dp / 16]) {
  const int first = int(threadIdx.x) / 16 * rows;
  float top[rows], sum[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    top[r] = fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3]));
#pragma unroll
    for (int step = 8; step > 0; step /= 2)  // the 16 threads of the row
      top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffU, top[r], step));
    const float before = so_far.highest[first + r];
    top[r] = fmaxf(before, top[r]);
    // Where nothing was seen the difference of two infinities would be no number.
    const float center = top[r] == -infinity ? 0.0F : top[r];
    const float shrink = exp2f(before - center);
    sum[r] = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      s[r][c] = exp2f(s[r][c] - center);
      sum[r] += s[r][c];
    }
#pragma unroll
    for (int step = 8; step > 0; step /= 2)
      sum[r] += __shfl_xor_sync(0xffffffffU, sum[r], step);
    sum[r] += so_far.sum[first + r] * shrink;
#pragma unroll
    for (int d = 0; d < Dp / 16; ++d)
      o[r][d] *= shrink;
  }
  __syncwarp();  // all have read what is now replaced
  if (threadIdx.x % 16 == 0)
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      so_far.highest[first + r] = top[r];
      so_far.sum[first + r] = sum[r];
    }
}

template <class T, int Dp>
__global__ void __launch_bounds__(threads, blocks<Dp>)
    forward_tile(const attention_forward<T> op, const attention_work a) {
  __shared__ shared_tiles own;
  __shared__ running so_far;

  // Backwards: with causality the last tiles see the most keys, and should not begin last.
  const int number = int(gridDim.x - 1 - blockIdx.x);
  const tile_place at = find_tile(a.query_starts, a.S, number);
  if (at.rows <= 0)
    return;
  const int h = int(blockIdx.y), per_group = int(a.H / a.G), g = h / per_group;
  const int first_key = a.key_starts[at.s];
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const T* q = op.q + at.first * a.query_row + g * a.query_group + (h - g * per_group) * a.D;
  const T* k = op.k + first_key * a.key_row + g * a.key_group;
  const T* v = op.v + first_key * a.key_row + g * a.key_group;

  if (threadIdx.x < tile) {
    own.query_position[threadIdx.x]
        = int(threadIdx.x) < at.rows ? a.query_position[at.first + threadIdx.x] : 0;
    so_far.highest[threadIdx.x] = -infinity;
    so_far.sum[threadIdx.x] = 0;
  }
  __syncthreads();
  const span queries = span_of(own.query_position, at.rows);
  const int end = keys_end(a, keys, queries);
  float o[rows][Dp / 16] = {};
  const int first_row = int(threadIdx.x) / 16 * rows, first_column = int(threadIdx.x) % 16 * 4;

#pragma unroll 1
  for (int t = keys_begin(a, keys, queries); t < end; ++t) {
    const int n = keys.rows_of(t);
    load_keys(keys, t, own);
    unsigned kept = 0;
    if (a.p_drop > 0) {  // first, while there are no scores to hold
      __syncthreads();
#pragma unroll 1
      for (int r = 0; r < rows; ++r)
        kept |= kept_keys(a,
                          a.sample[at.s],
                          h,
                          own.query_position[first_row + r],
                          own.key_position + first_column,
                          4)
                << (4 * r);
    }
    float s[rows][4];
    const std::int64_t first = std::int64_t{t} * tile * a.key_row;
    score<rows>(a, s, own.hand, q, a.query_row, at.rows, k + first, a.key_row, n);
    const bool whole = n == tile && all_seen(a, queries, keys.span_of_tile(t));
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        s[r][c] *= a.scale2;
        if (!whole
            && (first_column + c >= n
                || !seen(a, own.query_position[first_row + r], own.key_position[first_column + c])))
          s[r][c] = -infinity;
      }
    soften<Dp>(s, so_far, o);
    if (a.p_drop > 0) {
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          s[r][c] = kept >> (4 * r + c) & 1 ? s[r][c] : 0.0F;
    }
    store_weights(own.weights, s);
    add_weighted<rows, Dp>(a, o, own.weights, own.hand, v + first, a.key_row, n);
  }

  __syncwarp();
  float factor[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const float sum = so_far.sum[first_row + r], highest = so_far.highest[first_row + r];
    factor[r] = sum == 0 ? 0.0F : a.rest / sum;
    if (threadIdx.x % 16 == 0 && first_row + r < at.rows)
      op.lse[std::int64_t{at.first + first_row + r} * a.H + h]
          = sum == 0 ? -infinity : (highest + log2f(sum)) / log2_e;
  }
  write_rows<rows, Dp>(a, o, factor, op.o + (at.first * a.H + h) * a.D, a.H * a.D, at.rows);
}

template <class T, int Dp>
void forward_own(const attention_forward<T>& op, const context& in) {
  const attention_work a = work_of<T>(op.shape, {op.o, op.q, op.k, op.v});
  const dim3 grid(unsigned(tile_numbers(a.query_rows, a.S)), unsigned(a.H));
  launch(in, grid, dim3(threads), forward_tile<T, Dp>, op, a);
}

template <class T>
void compute(const attention_forward<T>& op, const context& in) {
  check_attention(op.shape);
  if (op.shape.query_rows == 0
      || run_by_library(op, chosen_attention(), in, op.o, op.lse, op.q, op.k, op.v))
    return;
  if (op.shape.D <= 64)
    forward_own<T, 64>(op, in);
  else if (op.shape.D <= 128)
    forward_own<T, 128>(op, in);
  else
    forward_own<T, 256>(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const attention_forward<T>& op) {
  check_attention(op.shape);
  return attention_scratch(op, 0);
}

#define TROUPE_DEFINE(T)                                        \
  template <>                                                   \
  void run(const attention_forward<T>& op, const context& in) { \
    compute(op, in);                                            \
  }                                                             \
  template std::size_t scratch(const attention_forward<T>&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
