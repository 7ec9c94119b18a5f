#include "kernels/cuda/cross_entropy.cuh"
#include "kernels/cuda/run.hpp"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

using namespace cross_entropy;

constexpr int merge_threads = 128;
constexpr int most_parts = 128;  ///< per launch, limited by the size of kernel parameters

struct part_arrays {
  const float* lse[most_parts];
  const float* logit[most_parts];
};

/// `more`: loss and lse hold the logit and lse of earlier launches. `last`: no launch follows.
__global__ void __launch_bounds__(merge_threads) merge(float* loss,
                                                       float* lse,
                                                       const part_arrays part,
                                                       int parts,
                                                       std::int64_t R,
                                                       bool more,
                                                       bool last) {
  for (std::int64_t r = std::int64_t{blockIdx.x} * merge_threads + threadIdx.x; r < R;
       r += std::int64_t{gridDim.x} * merge_threads) {
    const float before = more ? lse[r] : -infinity;
    float highest = before;
    for (int k = 0; k < parts; ++k)
      highest = fmaxf(highest, part.lse[k][r]);
    // A part with only -infinity equals the maximum only if all parts are -infinity.
    const auto share
        = [highest](float x) { return x == highest ? 1.0 : exp(double(x) - double(highest)); };
    double sum = more ? share(before) : 0, logit = more ? double(loss[r]) : 0;
    for (int k = 0; k < parts; ++k) {
      sum += share(part.lse[k][r]);
      logit += double(part.logit[k][r]);
    }
    const double all = double(highest) + log(sum);
    lse[r] = float(all);
    loss[r] = float(last ? all - logit : logit);
  }
}

}  // namespace

template <>
void run(const cross_entropy_merge<float>& op, const context& in) {
  for (std::int64_t begin = 0; begin < op.parts; begin += most_parts) {
    const int n = int(std::min<std::int64_t>(most_parts, op.parts - begin));
    part_arrays part = {};
    std::copy_n(op.part_lse + begin, n, part.lse);
    std::copy_n(op.part_logit + begin, n, part.logit);
    launch(in,
           dim3(blocks_for(ceil_div(op.R, merge_threads), most_blocks)),
           dim3(merge_threads),
           merge,
           op.loss,
           op.lse,
           part,
           n,
           op.R,
           begin > 0,
           begin + n == op.parts);
  }
}

}  // namespace troupe::kernels::cuda
