#include "kernels/cuda/device.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int threads = 128;

template <class T>
__global__ void __launch_bounds__(threads) copy_buckets(const relative_bias_forward<T> op) {
  const std::int64_t n = op.H * op.count;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + int(threadIdx.x); i < n;
       i += std::int64_t{gridDim.x} * threads)
    op.bias[i] = to_float(op.table[op.bucket[i % op.count] * op.H + i / op.count]);
}

/// One thread for each element of the table.
template <class T>
__global__ void __launch_bounds__(threads) sum_buckets(const relative_bias_backward<T> op) {
  const std::int64_t n = op.buckets * op.H;
  for (std::int64_t at = std::int64_t{blockIdx.x} * threads + int(threadIdx.x); at < n;
       at += std::int64_t{gridDim.x} * threads) {
    const float* const from = op.dbias + at % op.H * op.count;
    float sum = op.accumulates ? op.dtable[at] : 0.0F;
    for (std::int64_t i = 0; i < op.count; ++i)
      sum += op.bucket[i] == at / op.H ? from[i] : 0.0F;
    op.dtable[at] = sum;
  }
}

template <class T>
void compute(const relative_bias_forward<T>& op, const context& in) {
  launch(in,
         dim3(blocks_for(ceil_div(op.H * op.count, threads), 1 << 20)),
         dim3(threads),
         copy_buckets<T>,
         op);
}

template <class T>
void compute(const relative_bias_backward<T>& op, const context& in) {
  launch(in,
         dim3(blocks_for(ceil_div(op.buckets * op.H, threads), 1 << 20)),
         dim3(threads),
         sum_buckets<T>,
         op);
}

}  // namespace

#define TROUPE_DEFINE(T)                                             \
  template <>                                                        \
  void run(const relative_bias_forward<T>& op, const context& in) {  \
    compute(op, in);                                                 \
  }                                                                  \
  template <>                                                        \
  void run(const relative_bias_backward<T>& op, const context& in) { \
    compute(op, in);                                                 \
  }
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
