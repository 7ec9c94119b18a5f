#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/run.hpp"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

constexpr int rows = 8;  ///< per thread
constexpr int threads = tile / rows * 16;
template <int Dp>
[[maybe_unused]] constexpr int blocks = Dp == 64    ? 4
                                        : Dp == 128 ? 3
                                                    : 1;  ///< per multiprocessor, by registers

/// Running softmax of the rows, in shared memory to save registers.
struct running {
  float highest[tile];
  float sum[tile];
};

/// Turns scores into probabilities times 2^highest and rescales the sums to the new maximum.
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
    // If no key was visible, the difference of two infinities would be NaN.
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
  __syncwarp();  // all have read the old values
  if (threadIdx.x % 16 == 0)
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      so_far.highest[first + r] = top[r];
      so_far.sum[first + r] = sum[r];
    }
}

__device__ __forceinline__ float result_factor(const attention_work& a, float sum) {
  return sum == 0 ? 0.0F : a.rest / sum;
}
__device__ __forceinline__ float log_sum_exp(float highest, float sum) {
  return sum == 0 ? -infinity : (highest + log2f(sum)) / log2_e;
}

/// Partial results when the keys of a row are split among blocks; sums are relative to the highest
/// score of the part.
struct parts {
  float* o;        ///< (parts, query rows, H, Dv)
  float* highest;  ///< (parts, query rows, H)
  float* sum;      ///< (parts, query rows, H)
};

/// Spread: the block handles part blockIdx.z of the keys.
template <class T, int Dp, bool Spread>
__global__ void __launch_bounds__(threads, blocks<Dp>)
    forward_tile(const attention_forward<T> op, const attention_work a, const parts to) {
  __shared__ shared_tiles own;
  __shared__ running so_far;

  // Reverse order: with causality the last tiles have the most keys and should start first.
  const int number = int(gridDim.x - 1 - blockIdx.x);
  const tile_place at = find_tile(a.query_starts, a.S, number);
  if (at.rows <= 0)
    return;
  const int h = int(blockIdx.y), per_group = int(a.H / a.G), g = h / per_group;
  const int first_key = a.key_starts[at.s];
  const key_tiles keys{a.key_position + first_key, a.key_starts[at.s + 1] - first_key};
  const int D = int(a.D), Dv = int(a.Dv);
  const head_rows<const T> q{
      op.q + at.first * a.query_row + g * a.query_group + (h - g * per_group) * a.D,
      a.query_row,
      at.rows,
      D};
  const T* k = op.k + first_key * a.key_row + g * a.key_group;
  const T* v = op.v + first_key * a.value_row + g * a.value_group;

  if (threadIdx.x < tile) {
    own.query_position[threadIdx.x]
        = int(threadIdx.x) < at.rows ? a.query_position[at.first + threadIdx.x] : 0;
    so_far.highest[threadIdx.x] = -infinity;
    so_far.sum[threadIdx.x] = 0;
  }
  __syncthreads();
  const span queries = span_of(own.query_position, at.rows);
  int begin = keys_begin(a, keys, queries), end = keys_end(a, keys, queries);
  if (Spread) {
    const int each = (end - begin + int(gridDim.z) - 1) / int(gridDim.z);
    begin += int(blockIdx.z) * each;
    end = min(end, begin + each);
  }
  float o[rows][Dp / 16] = {};
  const int first_row = int(threadIdx.x) / 16 * rows, first_column = int(threadIdx.x) % 16 * 4;

#pragma unroll 1
  for (int t = begin; t < end; ++t) {
    const int n = keys.rows_of(t);
    load_keys(keys, t, own);
    unsigned kept = 0;
    if (a.p_drop > 0) {  // early, while no scores occupy registers
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
    const std::int64_t first = std::int64_t{t} * tile;
    score<rows, T>(a.vectors, s, own.hand, q, {k + first * a.key_row, a.key_row, n, D});
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
        else if (op.bias.values != nullptr && first_row + r < at.rows)
          s[r][c] += bias2_of(
              op.bias, h, own.query_position[first_row + r], own.key_position[first_column + c]);
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
    add_weighted<rows, Dp, T>(
        a.vectors, o, own.weights, own.hand, {v + first * a.value_row, a.value_row, n, Dv});
  }

  const std::int64_t row = std::int64_t{at.first} * a.H + h;
  const std::int64_t part = std::int64_t{blockIdx.z} * a.query_rows * a.H + row;
  float* const lse = op.lse + lse_of(a, at.s, h, at.first);
  float factor[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const float sum = so_far.sum[first_row + r], highest = so_far.highest[first_row + r];
    const bool mine = threadIdx.x % 16 == 0 && first_row + r < at.rows;
    factor[r] = Spread ? 1.0F : result_factor(a, sum);
    if (Spread && mine) {
      to.highest[part + (first_row + r) * a.H] = highest;
      to.sum[part + (first_row + r) * a.H] = sum;
    } else if (mine) {
      lse[first_row + r] = log_sum_exp(highest, sum);
    }
  }
  if (Spread)
    write_rows<rows, Dp, float>(
        a.vectors, o, factor, {to.o + part * a.Dv, a.H * a.Dv, at.rows, Dv});
  else
    write_rows<rows, Dp, T>(a.vectors, o, factor, {op.o + row * a.Dv, a.H * a.Dv, at.rows, Dv});
}

constexpr int merge_threads = 128;

/// One warp per row and head.
template <class T>
__global__ void __launch_bounds__(merge_threads)
    merge_parts(const attention_forward<T> op, const attention_work a, const parts from, int n) {
  const std::int64_t all = a.query_rows * a.H;
  const std::int64_t row
      = std::int64_t{blockIdx.x} * (merge_threads / warp) + int(threadIdx.x) / warp;
  const int lane = int(threadIdx.x) % warp;
  if (row >= all)
    return;
  float highest = -infinity;
  for (int p = 0; p < n; ++p)
    highest = fmaxf(highest, from.highest[p * all + row]);
  const float center = highest == -infinity ? 0.0F : highest;
  float sum = 0;
  for (int p = 0; p < n; ++p)
    sum += from.sum[p * all + row] * exp2f(from.highest[p * all + row] - center);
  const float factor = result_factor(a, sum);
  for (int d = lane; d < a.Dv; d += warp) {
    float o = 0;
    for (int p = 0; p < n; ++p)
      o += from.o[(p * all + row) * a.Dv + d] * exp2f(from.highest[p * all + row] - center);
    op.o[row * a.Dv + d] = from_float<T>(o * factor);
  }
  if (lane == 0) {
    const int i = int(row / a.H);
    op.lse[lse_of(a, sequence_of(a.query_starts, a.S, i), int(row % a.H), i)]
        = log_sum_exp(highest, sum);
  }
}

/// With few queries, as in decoding, a device would be idle: the keys of each query are split.
struct forward_plan {
  std::int64_t parts;
  std::int64_t floats;  ///< of `highest` and of `sum`; a multiple of 4

  explicit forward_plan(const attention_shape& a) {
    constexpr std::int64_t enough = 2 * 132, least = 2;  // blocks; key tiles per part
    const std::int64_t tiles = ceil_div(a.longest_key, tile);
    const std::int64_t there
        = std::max<std::int64_t>(1, std::max(a.S, ceil_div(a.query_rows, tile)) * a.H);
    parts = std::max<std::int64_t>(1, std::min(ceil_div(tiles, least), enough / there));
    floats = ceil_div(parts * a.query_rows * a.H, 4) * 4;
  }
  std::size_t bytes(const attention_shape& a) const {
    return parts == 1 ? 0 : std::size_t(floats * (2 + a.Dv)) * sizeof(float);
  }
};

template <class T, int Dp>
void forward_own(const attention_forward<T>& op, const context& in) {
  const attention_work a = work_of<T>(op.shape, {op.o, op.q, op.k, op.v});
  const forward_plan plan(op.shape);
  dim3 grid(unsigned(tile_numbers(a.query_rows, a.S)), unsigned(a.H));
  if (plan.parts == 1) {
    launch(in, grid, dim3(threads), forward_tile<T, Dp, false>, op, a, parts{});
    return;
  }
  auto* const memory = scratch_array<float>(in, plan.bytes(op.shape));
  const parts partial{memory + 2 * plan.floats, memory, memory + plan.floats};
  grid.z = unsigned(plan.parts);
  launch(in, grid, dim3(threads), forward_tile<T, Dp, true>, op, a, partial);
  const auto rows_at_once = std::int64_t{merge_threads / warp};
  launch(in,
         dim3(unsigned(ceil_div(a.query_rows * a.H, rows_at_once))),
         dim3(merge_threads),
         merge_parts<T>,
         op,
         a,
         partial,
         plan.parts);
}

template <class T>
bool takes(const attention_forward<T>& op) {
  return op.bias.values == nullptr && tensor_cores_take_rows<T>(op.shape, {op.o, op.q, op.k, op.v});
}

template <class T>
void compute_own(const attention_forward<T>& op, own_kernels by, const context& in) {
  if constexpr (sizeof(T) == 2)
    if (by == own_kernels::tensor_cores && takes(op)) {
      forward_on_tensor_cores(op, work_of<T>(op.shape, {op.o, op.q, op.k, op.v}), in);
      return;
    }
  const std::int64_t largest = std::max(op.shape.D, op.shape.Dv);
  if (largest <= 64)
    forward_own<T, 64>(op, in);
  else if (largest <= 128)
    forward_own<T, 128>(op, in);
  else
    forward_own<T, 256>(op, in);
}

template <class T>
void compute(const attention_forward<T>& op, const context& in) {
  check_attention(op.shape);
  if (op.shape.query_rows == 0
      || run_by_library(op, chosen_attention(), in, op.o, op.lse, op.q, op.k, op.v))
    return;
  if (sizeof(T) == 2 && takes(op))
    note_scalar(op.shape);
  compute_own(op, chosen_own(), in);
}

}  // namespace

template <class T>
std::size_t scratch(const attention_forward<T>& op) {
  check_attention(op.shape);
  return attention_scratch(op, forward_plan(op.shape).bytes(op.shape));
}

#define TROUPE_DEFINE(T)                                                            \
  template <>                                                                       \
  void run(const attention_forward<T>& op, const context& in) {                     \
    compute(op, in);                                                                \
  }                                                                                 \
  template <>                                                                       \
  void run_own(const attention_forward<T>& op, own_kernels by, const context& in) { \
    compute_own(op, by, in);                                                        \
  }                                                                                 \
  template <>                                                                       \
  bool tensor_cores_take(const attention_forward<T>& op) {                          \
    return takes(op);                                                               \
  }                                                                                 \
  template std::size_t scratch(const attention_forward<T>&);
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
