#include "kernels/cuda/product_rows.hpp"

#include "kernels/cuda/each.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 132 * 8;

template <class T>
__global__ void fill(T* y, const T* bias, std::int64_t R, std::int64_t N) {
  const std::int64_t step = std::int64_t(gridDim.x) * threads;
  for (std::int64_t i = std::int64_t(blockIdx.x) * threads + threadIdx.x; i < R * N; i += step)
    y[i] = bias ? bias[i % N] : from_float<T>(0);
}

template <class T, int W>
struct bias_added {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> y, bias;
  };
  T* y;
  const T* bias;
  std::int64_t N;
  divider steps_of_row;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    const T* const column = bias + i - steps_of_row.quotient(unsigned(i / W)) * N;
    return {fetch<T, W>(y + i), fetch<T, W>(column)};
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k)
      out[k] = in.y[k] + in.bias[k];
    put(y + i, out);
  }
};

}  // namespace

template <class T>
void add_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in) {
  each_in_rows<wide<T>>(in,
                        R,
                        N,
                        all_aligned(y, bias) && N % wide<T> == 0,
                        [&](auto width, std::int64_t r, const divider& steps) {
                          return bias_added<T, width()>{y + r * N, bias, N, steps};
                        });
}

template <class T>
void fill_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in) {
  launch(in, blocks_for(ceil_div(R * N, threads), most_blocks), threads, fill<T>, y, bias, R, N);
}

#define TROUPE_INSTANTIATE(T)                                                        \
  template void fill_rows(T*, const T*, std::int64_t, std::int64_t, const context&); \
  template void add_rows(T*, const T*, std::int64_t, std::int64_t, const context&);
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
