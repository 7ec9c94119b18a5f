#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

template <class T, int W>
struct permute_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> x;
    float weight;
  };
  T* y;
  const T* x;
  const std::int32_t* place;
  const float* weight;
  std::int64_t C;
  divider slots, steps_of_row;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    const std::int64_t s = steps_of_row.quotient(unsigned(i / W)), c = i - s * C;
    const std::int32_t from = place[s];
    inputs in = {};
    if (from >= 0) {
      in.x = fetch<T, W>(x + std::int64_t{slots.quotient(unsigned(from))} * C + c);
      in.weight = weight ? weight[from] : 1.0f;
    }
    return in;
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k)
      out[k] = in.x[k] * in.weight;
    put(y + i, out);
  }
};

template <class T>
void run_op(const permute<T>& op, const context& in) {
  const bool vectors = op.C % wide<T> == 0 && all_aligned(op.y, op.x);
  each_in_rows<wide<T>>(
      in, op.S, op.C, vectors, [&](auto width, std::int64_t s, const divider& steps) {
        return permute_body<T, width()>{.y = op.y + s * op.C,
                                        .x = op.x,
                                        .place = op.place + s,
                                        .weight = op.weight,
                                        .C = op.C,
                                        .slots = divider(op.slots),
                                        .steps_of_row = steps};
      });
}

/// Loads are the sum of a row's slots.
template <class T, int W>
struct unpermute_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    float sum[W];
  };
  T* y;
  const T* x;
  const std::int32_t* slot;
  const float* weight;
  std::int64_t C, slots;
  divider steps_of_row;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    const std::int64_t r = steps_of_row.quotient(unsigned(i / W)), c = i - r * C;
    inputs in = {};
    for (std::int64_t j = r * slots; j < (r + 1) * slots; ++j) {
      const std::int64_t from = slot[j];
      if (from < 0)
        continue;
      const auto one = fetch<T, W>(x + from * C + c);
      const float w = weight ? weight[j] : 1.0f;
#pragma unroll
      for (int k = 0; k < W; ++k)
        in.sum[k] = fmaf(w, one[k], in.sum[k]);
    }
    return in;
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    put(y + i, in.sum);
  }
};

template <class T>
void run_op(const unpermute<T>& op, const context& in) {
  const bool vectors = op.C % wide<T> == 0 && all_aligned(op.y, op.x);
  each_in_rows<wide<T>>(
      in, op.R, op.C, vectors, [&](auto width, std::int64_t r, const divider& steps) {
        return unpermute_body<T, width()>{.y = op.y + r * op.C,
                                          .x = op.x,
                                          .slot = op.slot + r * op.slots,
                                          .weight = op.weight ? op.weight + r * op.slots : nullptr,
                                          .C = op.C,
                                          .slots = op.slots,
                                          .steps_of_row = steps};
      });
}

constexpr int dot_threads = 128;

/// One warp per slot.
template <class T, int W>
__global__ void __launch_bounds__(dot_threads)
    slot_weights_kernel(const unpermute_backward_weight<T> op) {
  const int lane = int(threadIdx.x) % warp;
  const std::int64_t all = op.R * op.slots, warps = std::int64_t{gridDim.x} * dot_threads / warp;
  for (std::int64_t j = (std::int64_t{blockIdx.x} * dot_threads + threadIdx.x) / warp; j < all;
       j += warps) {
    const std::int64_t from = op.slot[j];
    float sum = 0;
    if (from >= 0)
      for (std::int64_t c = std::int64_t{lane} * W; c < op.C; c += warp * W) {
        const auto dy = fetch<T, W>(op.dy + j / op.slots * op.C + c);
        const auto x = fetch<T, W>(op.x + from * op.C + c);
#pragma unroll
        for (int k = 0; k < W; ++k)
          sum = fmaf(dy[k], x[k], sum);
      }
    sum = warp_sum(sum);
    if (lane == 0)
      op.dweight[j] = sum;
  }
}

template <class T>
void run_op(const unpermute_backward_weight<T>& op, const context& in) {
  const auto grid = blocks_for(ceil_div(op.R * op.slots, dot_threads / warp), 16 * processors);
  if (op.C % wide<T> == 0 && all_aligned(op.dy, op.x))
    launch(in, grid, dot_threads, slot_weights_kernel<T, wide<T>>, op);
  else
    launch(in, grid, dot_threads, slot_weights_kernel<T, 1>, op);
}

}  // namespace

#define TROUPE_INSTANTIATE(T)                                           \
  template <>                                                           \
  void run(const permute<T>& op, const context& in) {                   \
    run_op(op, in);                                                     \
  }                                                                     \
  template <>                                                           \
  void run(const unpermute<T>& op, const context& in) {                 \
    run_op(op, in);                                                     \
  }                                                                     \
  template <>                                                           \
  void run(const unpermute_backward_weight<T>& op, const context& in) { \
    run_op(op, in);                                                     \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
