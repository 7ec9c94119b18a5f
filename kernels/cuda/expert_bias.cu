#include "kernels/cuda/device.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int bias_threads = 256;

// One block. Sums of whole numbers are exact in double, in any order.
__global__ void __launch_bounds__(bias_threads)
    expert_bias_kernel(float* bias, const float* counts, std::int64_t E, float rate) {
  double sum = 0;
  for (std::int64_t e = threadIdx.x; e < E; e += bias_threads)
    sum += double(counts[e]);
  sum = block_sum<bias_threads>(sum);
  for (std::int64_t e = threadIdx.x; e < E; e += bias_threads) {
    const double share = double(counts[e]) * double(E);
    if (share < sum)
      bias[e] += rate;
    else if (share > sum)
      bias[e] -= rate;
  }
}

}  // namespace

template <>
void run(const expert_bias_step<float>& op, const context& in) {
  launch(in, 1, bias_threads, expert_bias_kernel, op.bias, op.counts, op.E, op.rate);
}

}  // namespace troupe::kernels::cuda
