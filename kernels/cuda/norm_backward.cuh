// Backward kernels of norm_rows.cuh.

#pragma once

#include "kernels/cuda/norm_group.cuh"

namespace troupe::kernels::cuda {

template <class T, class Place>
struct norm_rows_backward {
  T* dx;
  const T* dy;
  const T* x;
  const T* gain;
  const float* mean;
  const float* rstd;
  const T* residual;
  std::int64_t R, C;
  float gain_offset;
  bool centred;
  Place place;
};

/// A group handles Batch rows at a time, with up to Packs packs per lane, like in the forward pass.
template <class T, int W, int Lanes, int Packs, int Batch, class Place>
__global__ void __launch_bounds__(norm_threads, 2)
    norm_backward_kernel(const norm_rows_backward<T, Place> op) {
  constexpr int rows = norm_threads / Lanes;
  const int lane = int(threadIdx.x) % Lanes, packs = int(op.C / W);
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows * Batch; first < op.R;
       first += std::int64_t{gridDim.x} * rows * Batch) {
    const std::int64_t r = first + threadIdx.x / Lanes;
    bundle<T, W> x[Batch][Packs], dy[Batch][Packs];
    float mean[Batch], rstd[Batch];
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      const bool mine = r + b * rows < op.R;
#pragma unroll
      for (int p = 0; p < Packs; ++p) {
        const int v = lane + p * Lanes;
        if (mine && v < packs) {
          const std::int64_t at = op.place(r + b * rows) + v * W;
          dy[b][p] = fetch<T, W>(op.dy + at);
          x[b][p] = fetch<T, W>(op.x + at);
        } else {
          dy[b][p] = {};
          x[b][p] = {};
        }
      }
      mean[b] = mine && op.centred ? op.mean[r + b * rows] : 0;
      rstd[b] = mine ? op.rstd[r + b * rows] : 0;
    }

    two_sums sums[Batch] = {};
#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int v = lane + p * Lanes;
      if (v >= packs)
        continue;
      const auto gain = fetch<T, W>(op.gain + v * W);
#pragma unroll
      for (int b = 0; b < Batch; ++b)
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const float h = dy[b][p][k] * (gain[k] + op.gain_offset);
          sums[b].a += h;
          sums[b].b = fmaf(h, (x[b][p][k] - mean[b]) * rstd[b], sums[b].b);
        }
    }
#pragma unroll
    for (int b = 0; b < Batch; ++b) {
      sums[b] = group_sums<Lanes>(sums[b]);
      sums[b].a = op.centred ? sums[b].a / float(op.C) : 0;
      sums[b].b /= float(op.C);
    }

#pragma unroll
    for (int p = 0; p < Packs; ++p) {
      const int v = lane + p * Lanes;
      if (v >= packs)
        continue;
      const auto gain = fetch<T, W>(op.gain + v * W);
#pragma unroll
      for (int b = 0; b < Batch; ++b) {
        if (r + b * rows >= op.R)
          continue;
        const std::int64_t at = op.place(r + b * rows) + v * W;
        bundle<T, W> residual = {};
        float dx[W];
        if (op.residual)
          residual = fetch<T, W>(op.residual + at);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const float h = dy[b][p][k] * (gain[k] + op.gain_offset);
          const float xh = (x[b][p][k] - mean[b]) * rstd[b];
          const float along = fmaf(-xh, sums[b].b, h - sums[b].a);
          dx[k] = fmaf(rstd[b], along, residual[k]);
        }
        put(op.dx + at, dx);
      }
    }
  }
}

/// Reads rows twice that are too long for registers.
template <class T, int W, int Lanes, class Place>
__global__ void __launch_bounds__(norm_threads, 2)
    norm_backward_long_kernel(const norm_rows_backward<T, Place> op) {
  constexpr int rows = norm_threads / Lanes;
  const int lane = int(threadIdx.x) % Lanes;
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows; first < op.R;
       first += std::int64_t{gridDim.x} * rows) {
    const std::int64_t r = first + threadIdx.x / Lanes;
    const bool mine = r < op.R;
    const std::int64_t C = mine ? op.C : 0, at = mine ? op.place(r) : 0;
    const float mean = mine && op.centred ? op.mean[r] : 0, rstd = mine ? op.rstd[r] : 0;
    two_sums sums = {};
    for (std::int64_t c = std::int64_t{lane} * W; c < C; c += Lanes * W) {
      const auto x = fetch<T, W>(op.x + at + c), dy = fetch<T, W>(op.dy + at + c),
                 gain = fetch<T, W>(op.gain + c);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float h = dy[k] * (gain[k] + op.gain_offset);
        sums.a += h;
        sums.b = fmaf(h, (x[k] - mean) * rstd, sums.b);
      }
    }
    sums = group_sums<Lanes>(sums);
    const float h_mean = op.centred ? sums.a / float(op.C) : 0, hx_mean = sums.b / float(op.C);
    for (std::int64_t c = std::int64_t{lane} * W; c < C; c += Lanes * W) {
      const auto x = fetch<T, W>(op.x + at + c), dy = fetch<T, W>(op.dy + at + c),
                 gain = fetch<T, W>(op.gain + c);
      bundle<T, W> residual = {};
      float dx[W];
      if (op.residual)
        residual = fetch<T, W>(op.residual + at + c);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float h = dy[k] * (gain[k] + op.gain_offset);
        const float xh = (x[k] - mean) * rstd;
        const float along = fmaf(-xh, hx_mean, h - h_mean);
        dx[k] = fmaf(rstd, along, residual[k]);
      }
      put(op.dx + at + c, dx);
    }
  }
}

}  // namespace troupe::kernels::cuda
