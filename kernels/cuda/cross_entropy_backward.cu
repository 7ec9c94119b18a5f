#include "kernels/cuda/cross_entropy_slope.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

using namespace cross_entropy;

constexpr int backward_threads = 256;

/// One block per part of a row.
template <class T, int W>
__global__ void __launch_bounds__(backward_threads)
    backward_row_parts(const cross_entropy_backward<T> op, int parts) {
  for (std::int64_t item = blockIdx.x; item < op.R * parts; item += gridDim.x) {
    const std::int64_t r = item / parts;
    const row_gradient<T, W> row(op.logits + r * op.V,
                                 op.dlogits + r * op.V,
                                 op.V,
                                 op.vocabulary,
                                 std::int64_t{op.target[r]} - op.first,
                                 {op.lse[r], op.dloss[r]});
    row.template write<backward_threads, ahead>(int(item % parts), parts);
  }
}

template <class T, int W>
void backward(const cross_entropy_backward<T>& op, const context& in) {
  const auto parts = gradient_parts<W, backward_threads, ahead>(op.V);
  launch(in,
         dim3(blocks_for(op.R * parts, most_blocks)),
         dim3(backward_threads),
         backward_row_parts<T, W>,
         op,
         parts);
}

template <class T>
void compute(const cross_entropy_backward<T>& op, const context& in) {
  if (op.V == 0)
    return;
  if (begin_alike(op.logits, op.dlogits))
    backward<T, wide<T>>(op, in);
  else
    backward<T, 1>(op, in);
}

}  // namespace

#define TROUPE_DEFINE(T)                                             \
  template <>                                                        \
  void run(const cross_entropy_backward<T>& op, const context& in) { \
    compute(op, in);                                                 \
  }
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
