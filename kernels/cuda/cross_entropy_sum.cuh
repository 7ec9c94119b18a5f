// The sum of the softmax over the columns of a row, computed by one block.

#pragma once

#include "kernels/cuda/cross_entropy.cuh"

namespace troupe::kernels::cuda::cross_entropy {

/// Sum of e^(x - highest). Source: Milakov, Gimelshein, "Online normalizer calculation for
/// softmax", 2018.
struct partial_sum {
  double sum;
  float highest;
};

/// Running sum of one thread.
struct running_sum {
  float highest = -infinity;
  float sum = 0;

  template <int N>
  __device__ __forceinline__ void raise(const float (&top)[N]) {
    float most = top[0];
#pragma unroll
    for (int i = 1; i < N; ++i)
      most = fmaxf(most, top[i]);
    if (most > highest) {
      sum *= exponential(highest, most);
      highest = most;
    }
  }
  /// If all values are -infinity, the difference would be NaN.
  __device__ __forceinline__ float center() const {
    return highest == -infinity ? 0.0F : highest;
  }

  __device__ __forceinline__ void add(float x) {
    raise<1>({x});
    sum += exponential(x, center());
  }
  template <class T, int N>
  __device__ __forceinline__ void add(const pack<T, wide<T>> (&x)[N]) {
    float top[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      top[i] = to_float(x[i].x[0]);
#pragma unroll
      for (int w = 1; w < wide<T>; ++w)
        top[i] = fmaxf(top[i], to_float(x[i].x[w]));
    }
    raise(top);
    const float from = center();
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float added = 0;
#pragma unroll
      for (int w = 0; w < wide<T>; ++w)
        added += exponential(to_float(x[i].x[w]), from);
      sum += added;
    }
  }
};

/// Sum over the block, in every thread.
template <int Threads>
__device__ __forceinline__ partial_sum whole_sum(const running_sum& mine) {
  constexpr int warps = Threads / warp;
  float highest = warp_max(mine.highest);
  if constexpr (warps > 1) {
    __shared__ float of_warp[warps];
    if (threadIdx.x % warp == 0)  // block_sum's barriers end the previous row's reads
      of_warp[threadIdx.x / warp] = highest;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < warps; ++w)
      highest = fmaxf(highest, of_warp[w]);
  }
  const float shrink = highest == -infinity ? 1.0F : exponential(mine.highest, highest);
  return {block_sum<Threads>(double(mine.sum) * double(shrink)), highest};
}

/// Columns [0, n) of a row, over all threads of the block.
template <class T, int Threads>
__device__ __forceinline__ partial_sum sum_of(const T* from, int n) {
  constexpr int W = wide<T>;
  const int me = int(threadIdx.x), before = before_vectors(from, n);
  const int vectors = (n - before) / W, after = before + vectors * W;
  running_sum mine;
  int i = me;
  for (; i + (ahead - 1) * Threads < vectors; i += ahead * Threads) {
    pack<T, W> x[ahead];
#pragma unroll
    for (int u = 0; u < ahead; ++u)
      x[u] = load<T, W>(from + before + (i + u * Threads) * W);
    mine.add(x);
  }
  for (; i < vectors; i += Threads) {
    const pack<T, W> x[1] = {load<T, W>(from + before + i * W)};
    mine.add(x);
  }
  if (me < before)
    mine.add(to_float(from[me]));
  if (me < n - after)
    mine.add(to_float(from[after + me]));
  return whole_sum<Threads>(mine);
}

}  // namespace troupe::kernels::cuda::cross_entropy
