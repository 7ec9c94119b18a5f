#include "kernels/cuda/row_lanes.cuh"
#include "kernels/cuda/run.hpp"

#include <limits>

namespace troupe::kernels::cuda {

namespace {

constexpr int sinkhorn_threads = columns * row_lanes;

// One block computes all rounds, so that the host need not read the change.
__global__ void __launch_bounds__(sinkhorn_threads)
    sinkhorn_kernel(const sinkhorn<float> op, double* cost, double* d0, double* d1) {
  const std::int64_t R = op.R, E = op.E;
  const int me = int(threadIdx.x), column = me % columns, lane = me / columns;
  for (std::int64_t r = me; r < R; r += sinkhorn_threads) {
    const float* x = op.logits + r * E;
    float top = x[0];
    for (std::int64_t e = 1; e < E; ++e)
      top = top < x[e] ? x[e] : top;
    for (std::int64_t e = 0; e < E; ++e)
      cost[r * E + e] = exp(double(x[e]) - double(top));
  }
  for (std::int64_t e = me; e < E; e += sinkhorn_threads)
    d1[e] = 1;
  double change = std::numeric_limits<double>::infinity();
  for (int round = 0; round < op.most_rounds && change > op.tolerance; ++round) {
    __syncthreads();
    for (std::int64_t r = me; r < R; r += sinkhorn_threads) {
      double sum = op.epsilon;
      for (std::int64_t e = 0; e < E; ++e)
        sum += d1[e] * cost[r * E + e];
      d0[r] = 1 / (double(R) * sum);
    }
    __syncthreads();
    double changed = 0;
    for (std::int64_t first = 0; first < E; first += columns) {
      const std::int64_t e = first + column;
      double sum = 0;
      for (std::int64_t r = lane; r < R && e < E; r += row_lanes)
        sum += d0[r] * cost[r * E + e];
      sum = sum_of_lanes(sum) + op.epsilon;
      if (e < E && lane == 0) {
        const double now = 1 / (double(E) * sum);
        changed += fabs(now - d1[e]) / double(E);
        d1[e] = now;
      }
    }
    change = block_sum<sinkhorn_threads>(changed);
  }
  __syncthreads();
  for (std::int64_t e = me; e < E; e += sinkhorn_threads)
    op.bias[e] = float(log(d1[e]));
}

}  // namespace

std::size_t scratch(const sinkhorn<float>& op) {
  return sizeof(double) * std::size_t(op.R * op.E + op.R + op.E);
}

template <>
void run(const sinkhorn<float>& op, const context& in) {
  auto* const cost = scratch_array<double>(in, scratch(op));
  double *const d0 = cost + op.R * op.E, *const d1 = d0 + op.R;
  launch(in, 1, sinkhorn_threads, sinkhorn_kernel, op, cost, d0, d1);
}

}  // namespace troupe::kernels::cuda
