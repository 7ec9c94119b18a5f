// Forward kernels of norm_rows.cuh.

#pragma once

#include "kernels/cuda/norm_group.cuh"

namespace troupe::kernels::cuda {

/// Sums: normalizes x + residual, and stores this sum.
template <class T, class Place, bool Sums = false>
struct norm_rows_forward {
  T* y;
  float* mean;
  float* rstd;
  const T* x;
  const T* gain;
  const T* bias;
  std::int64_t R, C;
  float eps, gain_offset;
  bool centred;
  Place place;
  const T* residual = nullptr;
  T* sum = nullptr;
};

/// The sum, rounded: same bits as dropout.cu without dropout.
template <class T, int W>
__device__ __forceinline__ bundle<T, W> sum_of(const bundle<T, W>& x,
                                               const bundle<T, W>& residual) {
  float out[W];
#pragma unroll
  for (int k = 0; k < W; ++k)
    out[k] = (x[k] + 0.0f) + residual[k];
  return rounded<T, W>(out);
}

/// A group handles Batch rows at a time, with up to Packs packs per lane.
template <class T, int W, int Lanes, int Packs, int Batch, class Place, bool Sums>
__global__ void __launch_bounds__(norm_threads, 2)
    norm_forward_kernel(const norm_rows_forward<T, Place, Sums> op) {
  constexpr int rows = norm_threads / Lanes;
  const int lane = int(threadIdx.x) % Lanes, packs = int(op.C / W);
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows * Batch; first < op.R;
       first += std::int64_t{gridDim.x} * rows * Batch) {
    const std::int64_t r = first + threadIdx.x / Lanes;
    bundle<T, W> x[Batch][Packs];
#pragma unroll
    for (int b = 0; b < Batch; ++b)
#pragma unroll
      for (int p = 0; p < Packs; ++p) {
        const int v = lane + p * Lanes;
        if (r + b * rows < op.R && v < packs)
          x[b][p] = fetch<T, W>(op.x + op.place(r + b * rows) + v * W);
        else
          x[b][p] = {};
      }
    if constexpr (Sums) {
      bundle<T, W> residual[Batch][Packs];
#pragma unroll
      for (int b = 0; b < Batch; ++b)
#pragma unroll
        for (int p = 0; p < Packs; ++p)
          if (const int v = lane + p * Lanes; r + b * rows < op.R && v < packs)
            residual[b][p] = fetch<T, W>(op.residual + op.place(r + b * rows) + v * W);
#pragma unroll
      for (int b = 0; b < Batch; ++b)
#pragma unroll
        for (int p = 0; p < Packs; ++p)
          if (const int v = lane + p * Lanes; r + b * rows < op.R && v < packs) {
            x[b][p] = sum_of(x[b][p], residual[b][p]);
            put(op.sum + op.place(r + b * rows) + v * W, x[b][p]);
          }
    }

    float mean[Batch], rstd[Batch];
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      mean[b] = 0;
      if (op.centred) {
        float sum = 0;
#pragma unroll
        for (int p = 0; p < Packs; ++p)
#pragma unroll
          for (int k = 0; k < W; ++k)
            sum += x[b][p][k];
        mean[b] = group_sum<Lanes>(sum) / float(op.C);
      }
      float squares = 0;
#pragma unroll
      for (int p = 0; p < Packs; ++p)
        if (lane + p * Lanes < packs)
#pragma unroll
          for (int k = 0; k < W; ++k) {
            const float away = x[b][p][k] - mean[b];
            squares = fmaf(away, away, squares);
          }
      rstd[b] = rsqrtf(group_sum<Lanes>(squares) / float(op.C) + op.eps);
      if (lane == 0 && r + b * rows < op.R) {
        if (op.mean)
          op.mean[r + b * rows] = mean[b];
        if (op.rstd)
          op.rstd[r + b * rows] = rstd[b];
      }
    }

#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int v = lane + p * Lanes;
      if (v >= packs)
        continue;
      const auto gain = fetch<T, W>(op.gain + v * W);
      bundle<T, W> bias = {};
      if (op.bias)
        bias = fetch<T, W>(op.bias + v * W);
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        if (r + b * rows >= op.R)
          continue;
        float y[W];
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const float xh = (x[b][p][k] - mean[b]) * rstd[b];
          y[k] = fmaf(xh, gain[k] + op.gain_offset, bias[k]);
        }
        put(op.y + op.place(r + b * rows) + v * W, y);
      }
    }
  }
}

/// Count, mean and sum of squared deviations. Merging parts avoids cancellation. Source: Chan,
/// Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
/// 1979.
struct moments {
  float n, mean, squares;
};
__device__ __forceinline__ moments merged(const moments& a, const moments& b) {
  const float n = a.n + b.n;
  if (n == 0)
    return a;
  const float share = __fdividef(b.n, n), away = b.mean - a.mean;
  return {n, fmaf(away, share, a.mean), a.squares + fmaf(away * away, a.n * share, b.squares)};
}

/// Same bits in every thread of the group: each merges the lanes in the same order.
template <int Lanes>
__device__ __forceinline__ moments group_moments(moments x) {
  constexpr int within = Lanes < warp ? Lanes : warp;
#pragma unroll
  for (int step = 1; step < within; step *= 2) {
    const moments other = {__shfl_xor_sync(0xffffffffU, x.n, step),
                           __shfl_xor_sync(0xffffffffU, x.mean, step),
                           __shfl_xor_sync(0xffffffffU, x.squares, step)};
    x = threadIdx.x & unsigned(step) ? merged(other, x) : merged(x, other);
  }
  if constexpr (Lanes > warp) {
    __shared__ moments part[Lanes / warp];
    __syncthreads();
    if (threadIdx.x % warp == 0)
      part[threadIdx.x / warp] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int w = 1; w < Lanes / warp; ++w)
      x = merged(x, part[w]);
  }
  return x;
}

/// Reads rows twice that are too long for registers.
template <class T, int W, int Lanes, class Place, bool Sums>
__global__ void __launch_bounds__(norm_threads, 2)
    norm_forward_long_kernel(const norm_rows_forward<T, Place, Sums> op) {
  constexpr int rows = norm_threads / Lanes;
  const int lane = int(threadIdx.x) % Lanes;
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows; first < op.R;
       first += std::int64_t{gridDim.x} * rows) {
    const std::int64_t r = first + threadIdx.x / Lanes;
    const std::int64_t C = r < op.R ? op.C : 0, at = r < op.R ? op.place(r) : 0;
    moments sum = {};
    for (std::int64_t c = std::int64_t{lane} * W; c < C; c += Lanes * W) {
      auto x = fetch<T, W>(op.x + at + c);
      if constexpr (Sums) {
        x = sum_of(x, fetch<T, W>(op.residual + at + c));
        put(op.sum + at + c, x);
      }
      moments part = {W, 0, 0};
      if (op.centred) {
#pragma unroll
        for (int k = 0; k < W; ++k)
          part.mean += x[k];
        part.mean /= W;
      }
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float away = x[k] - part.mean;
        part.squares = fmaf(away, away, part.squares);
      }
      sum = merged(sum, part);
    }
    sum = group_moments<Lanes>(sum);
    const float mean = sum.mean, rstd = rsqrtf(sum.squares / float(op.C) + op.eps);
    if (lane == 0 && r < op.R) {
      if (op.mean)
        op.mean[r] = mean;
      if (op.rstd)
        op.rstd[r] = rstd;
    }
    const T* const normalised = Sums ? op.sum : op.x;  // a lane reads only what it wrote
    for (std::int64_t c = std::int64_t{lane} * W; c < C; c += Lanes * W) {
      const auto x = fetch<T, W>(normalised + at + c), gain = fetch<T, W>(op.gain + c);
      bundle<T, W> bias = {};
      float y[W];
      if (op.bias)
        bias = fetch<T, W>(op.bias + c);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float xh = (x[k] - mean) * rstd;
        y[k] = fmaf(xh, gain[k] + op.gain_offset, bias[k]);
      }
      put(op.y + at + c, y);
    }
  }
}

}  // namespace troupe::kernels::cuda
