// Groups of lanes that normalize one row together: a part of a warp, a warp or a block. place(r) is
// the offset of row r, in elements.

#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/op/norm.hpp"

namespace troupe::kernels::cuda {

constexpr int norm_threads = 256;

struct two_sums {
  float a, b;
};

/// Sums over the Lanes lanes of a group, in every lane: a fixed tree. All threads of the block must
/// take part.
template <int Lanes>
__device__ __forceinline__ two_sums group_sums(two_sums x) {
  if constexpr (Lanes > warp) {
    constexpr int warps = Lanes / warp;
    static_assert(Lanes == norm_threads);
    x = group_sums<warp>(x);
    __shared__ two_sums part[warps];
    __syncthreads();
    if (threadIdx.x % warp == 0)
      part[threadIdx.x / warp] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int w = 1; w < warps; ++w) {
      x.a += part[w].a;
      x.b += part[w].b;
    }
  } else {
#pragma unroll
    for (int step = Lanes / 2; step > 0; step /= 2) {
      x.a += __shfl_xor_sync(0xffffffffU, x.a, step);
      x.b += __shfl_xor_sync(0xffffffffU, x.b, step);
    }
  }
  return x;
}
template <int Lanes>
__device__ __forceinline__ float group_sum(float x) {
  if constexpr (Lanes > warp) {
    return block_sum<Lanes>(x);
  } else {
#pragma unroll
    for (int step = Lanes / 2; step > 0; step /= 2)
      x += __shfl_xor_sync(0xffffffffU, x, step);
    return x;
  }
}

}  // namespace troupe::kernels::cuda
