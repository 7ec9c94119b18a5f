#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

template <class To, class From, int W>
struct cast_body {
  static constexpr int width = W, steps = 2;
  using inputs = bundle<From, W>;
  To* y;
  const From* x;

  __device__ __forceinline__ inputs load(std::int64_t i) const { return fetch<From, W>(x + i); }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
#pragma unroll
    for (int k = 0; k < W; ++k)
      out[k] = in[k];
    put(y + i, out);
  }
};

/// Moves 16 bytes of the narrow type and 32 of the other at a time.
template <class To, class From>
void cast(To* y, const From* x, std::int64_t n, const context& in) {
  each_flat<8>(in, n, all_aligned(y, x), [&](auto width) {
    return cast_body<To, From, width()>{y, x};
  });
}

}  // namespace

#define TROUPE_INSTANTIATE(T)                        \
  template <>                                        \
  void run(const narrow<T>& op, const context& in) { \
    cast<T, float>(op.y, op.x, op.n, in);            \
  }                                                  \
  template <>                                        \
  void run(const widen<T>& op, const context& in) {  \
    cast<float, T>(op.y, op.x, op.n, in);            \
  }
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
