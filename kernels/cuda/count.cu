#include "kernels/cuda/device.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

using count_word = unsigned long long;  // the type that atomicAdd takes

constexpr int count_threads = 256, count_steps = 4;

__global__ void clear_count(count_word* result) {
  *result = 0;
}

// A count does not depend on the order, so blocks use atomics.
template <int W>
__global__ void __launch_bounds__(count_threads)
    count_kernel(count_word* result, const float* x, std::int64_t n) {
  constexpr std::int64_t step = std::int64_t{count_threads} * W, tile = step * count_steps;
  count_word zeros = 0;
  for (std::int64_t first = blockIdx.x * tile; first < n; first += gridDim.x * tile) {
    const std::int64_t at = first + std::int64_t{threadIdx.x} * W;
    pack<float, W> in[count_steps];
#pragma unroll
    for (int s = 0; s < count_steps; ++s)
      if (at + s * step + W <= n)
        in[s] = load<float, W>(x + at + s * step);
#pragma unroll
    for (int s = 0; s < count_steps; ++s) {
      const std::int64_t i = at + s * step;
      if (i + W <= n) {
#pragma unroll
        for (int k = 0; k < W; ++k)
          zeros += in[s].x[k] == 0 ? 1 : 0;
      } else {
        for (std::int64_t k = i; k < n; ++k)
          zeros += x[k] == 0 ? 1 : 0;
      }
    }
  }
  zeros = block_sum<count_threads>(zeros);
  if (threadIdx.x == 0 && zeros > 0)
    atomicAdd(result, zeros);
}

}  // namespace

template <>
void run(const count_zeros<float>& op, const context& in) {
  static_assert(sizeof(count_word) == sizeof(*op.result));
  auto* const result = reinterpret_cast<count_word*>(op.result);
  launch(in, 1, 1, clear_count, result);
  constexpr int W = wide<float>;
  const auto start = [&](int width, auto* kernel) {
    const auto tiles = ceil_div(op.n, std::int64_t{count_threads} * width * count_steps);
    launch(in, blocks_for(tiles, 8 * processors), count_threads, kernel, result, op.x, op.n);
  };
  if (all_aligned(op.x))
    start(W, count_kernel<W>);
  else
    start(1, count_kernel<1>);
}

}  // namespace troupe::kernels::cuda
