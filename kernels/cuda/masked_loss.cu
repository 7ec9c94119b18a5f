#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int loss_threads = 1024;

// One block: lane l of 1,024 adds rows l, l + 1024, ... in order, then a tree adds the lanes. A sum
// in row order would take 8 cycles per row on one thread. In double both orders are exact and give
// the same bits, unless some loss is below 2^-30 of the total.
__global__ void __launch_bounds__(loss_threads) masked_loss_kernel(
    double* total, double* tokens, const float* loss, const float* mask, std::int64_t R) {
  double of_loss = 0, of_mask = 0;
#pragma unroll 4
  for (std::int64_t r = threadIdx.x; r < R; r += loss_threads) {
    if (total != nullptr)
      of_loss += double(loss[r]) * double(mask[r]);
    of_mask += double(mask[r]);
  }
  of_loss = block_sum<loss_threads>(of_loss);
  of_mask = block_sum<loss_threads>(of_mask);
  if (threadIdx.x == 0) {
    if (total != nullptr)
      *total = of_loss;
    *tokens = of_mask;
  }
}

template <int W>
struct masked_loss_back {
  static constexpr int width = W, steps = 1;
  using inputs = pack<float, W>;
  float* dloss;
  const float* mask;
  const double* tokens;
  double scale;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    return cuda::load<float, W>(mask + i);
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    const double divisor = tokens != nullptr ? *tokens : 1;
    const float factor = divisor > 0 ? float(scale / divisor) : 0.0f;
    pack<float, W> out;
#pragma unroll
    for (int k = 0; k < W; ++k)
      out.x[k] = in.x[k] * factor;
    store_global(dloss + i, out);
  }
};

}  // namespace

template <>
void run(const masked_loss_forward<float>& op, const context& in) {
  launch(in, 1, loss_threads, masked_loss_kernel, op.total, op.tokens, op.loss, op.mask, op.R);
}

template <>
void run(const masked_loss_backward<float>& op, const context& in) {
  each_flat<wide<float>>(in, op.R, all_aligned(op.dloss, op.mask), [&](auto width) {
    return masked_loss_back<width()>{op.dloss, op.mask, op.tokens, op.scale};
  });
}

}  // namespace troupe::kernels::cuda
