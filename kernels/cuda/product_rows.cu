#include "kernels/cuda/product_rows.hpp"

#include "kernels/cuda/device.cuh"

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

}  // namespace

template <class T>
void fill_rows(T* y, const T* bias, std::int64_t R, std::int64_t N, const context& in) {
  launch(in, blocks_for(ceil_div(R * N, threads), most_blocks), threads, fill<T>, y, bias, R, N);
}

template void fill_rows(float*, const float*, std::int64_t, std::int64_t, const context&);
template void fill_rows(bf16*, const bf16*, std::int64_t, std::int64_t, const context&);
template void fill_rows(f16*, const f16*, std::int64_t, std::int64_t, const context&);

}  // namespace troupe::kernels::cuda
