#include "kernels/cuda/device.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int threads = 128;

/// One block per row, W elements per access.
template <class T, int W>
__global__ void __launch_bounds__(threads) copy_rows(const cache_rows<T> op) {
  const int width = int(op.width / W), pieces = int(op.G) * width;
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const std::int64_t at = op.at[r];
    T* to = op.entries + at * op.G * op.width;
    const T* from = op.kv + r * op.row;
    for (int i = int(threadIdx.x); i < pieces; i += threads)
      store(to + std::int64_t{i} * W,
            load<T, W>(from + i / width * op.group + std::int64_t{i % width} * W));
    if (threadIdx.x == 0)
      op.positions[at] = op.position[r];
  }
}

template <class T>
void compute(const cache_rows<T>& op, const context& in) {
  constexpr int W = wide<T>;
  const bool vectors
      = all_aligned(op.entries, op.kv) && op.width % W == 0 && op.row % W == 0 && op.group % W == 0;
  const dim3 grid(blocks_for(op.R, 1 << 20));
  if (vectors)
    launch(in, grid, dim3(threads), copy_rows<T, W>, op);
  else
    launch(in, grid, dim3(threads), copy_rows<T, 1>, op);
}

}  // namespace

#define TROUPE_DEFINE(T)                                 \
  template <>                                            \
  void run(const cache_rows<T>& op, const context& in) { \
    compute(op, in);                                     \
  }
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
