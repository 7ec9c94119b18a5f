#include "kernels/cuda/device.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int threads = 128;

/// One block per row, W elements per access.
template <class T, int W>
__global__ void __launch_bounds__(threads) copy_rows(const copy_heads<T> op) {
  const int width = int(op.width / W), pieces = int(op.G) * width;
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    T* const to = op.to + r * op.to_row;
    const T* const from = op.from + r * op.from_row;
    for (int i = int(threadIdx.x); i < pieces; i += threads) {
      const int g = i / width, at = i % width * W;
      store(to + g * op.to_group + at, load<T, W>(from + g * op.from_group + at));
    }
  }
}

template <class T, int W>
__global__ void __launch_bounds__(threads) sum_rows(const sum_heads<T> op) {
  const int pieces = int(op.width / W);
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const T* const from = op.from + r * op.from_row;
    for (int i = int(threadIdx.x); i < pieces; i += threads) {
      float sum[W] = {};
      for (int g = 0; g < int(op.G); ++g) {
        const auto x = fetch<T, W>(from + g * op.from_group + i * W);
#pragma unroll
        for (int k = 0; k < W; ++k)
          sum[k] += x[k];
      }
      put(op.to + r * op.to_row + i * W, rounded<T, W>(sum));
    }
  }
}

template <class T>
void compute(const copy_heads<T>& op, const context& in) {
  constexpr int W = wide<T>;
  const bool vectors = all_aligned(op.to, op.from) && op.width % W == 0 && op.to_row % W == 0
                       && op.to_group % W == 0 && op.from_row % W == 0 && op.from_group % W == 0;
  const dim3 grid(blocks_for(op.R, 1 << 20));
  if (vectors)
    launch(in, grid, dim3(threads), copy_rows<T, W>, op);
  else
    launch(in, grid, dim3(threads), copy_rows<T, 1>, op);
}

template <class T>
void compute(const sum_heads<T>& op, const context& in) {
  constexpr int W = wide<T>;
  const bool vectors = all_aligned(op.to, op.from) && op.width % W == 0 && op.to_row % W == 0
                       && op.from_row % W == 0 && op.from_group % W == 0;
  const dim3 grid(blocks_for(op.R, 1 << 20));
  if (vectors)
    launch(in, grid, dim3(threads), sum_rows<T, W>, op);
  else
    launch(in, grid, dim3(threads), sum_rows<T, 1>, op);
}

}  // namespace

#define TROUPE_DEFINE(T)                                 \
  template <>                                            \
  void run(const copy_heads<T>& op, const context& in) { \
    compute(op, in);                                     \
  }                                                      \
  template <>                                            \
  void run(const sum_heads<T>& op, const context& in) {  \
    compute(op, in);                                     \
  }
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
