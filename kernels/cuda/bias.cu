#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

template <class T, int W>
struct column_sum {
  static constexpr int width = W, sums = 1, unroll = 4;
  using inputs = bundle<T, W>;
  const T* dz;
  std::int64_t N;

  __device__ __forceinline__ inputs load(std::int64_t r, std::int64_t n) const {
    return fetch<T, W>(dz + r * N + n);
  }
  __device__ __forceinline__ void add(const inputs& in, float (&to)[sums][W]) const {
#pragma unroll
    for (int k = 0; k < W; ++k)
      to[0][k] += in[k];
  }
};

template <class T>
row_blocks blocks_of(const bias_backward<T>& op) {
  return {op.R, op.N, wide<T>};
}

template <int W, class T>
void sum_columns(const bias_backward<T>& op, const context& in) {
  add_columns(
      in, column_sum<T, W>{op.dz, op.N}, op.R, op.N, blocks_of(op), {op.dbias, op.accumulates});
}

template <class T>
void run_op(const bias_backward<T>& op, const context& in) {
  constexpr int W = wide<T>;
  all_aligned(op.dz) && op.N % W == 0 ? sum_columns<W>(op, in) : sum_columns<1>(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const bias_backward<T>& op) {
  return blocks_of(op).scratch(op.N, 1);
}

#define TROUPE_INSTANTIATE(T)                               \
  template std::size_t scratch(const bias_backward<T>&);    \
  template <>                                               \
  void run(const bias_backward<T>& op, const context& in) { \
    run_op(op, in);                                         \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
