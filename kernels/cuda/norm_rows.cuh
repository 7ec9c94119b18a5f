// Rows that are normalised: whole ones (norm.cu), or the heads of a fused product (head_norm.cu).
//
// A group of lanes has one row: as many neighbours as a warp has room for, or a block. Where a row
// fits into the registers of its group it is read once. Longer rows, and those that vectors cannot
// load, are read twice; the second time mostly from a cache.

#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/op/norm.hpp"

namespace troupe::kernels::cuda {

constexpr int norm_threads = 256;

/// What both directions know of the rows. `Place` says where row r begins: place(r), in elements.
template <class T, class Place>
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
};

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

struct two_sums {
  float a, b;
};

/// Sums over the Lanes neighbours of a group, in every one of them: a tree of fixed shape. All
/// threads of the block take part.
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

// --- rows in registers -------------------------------------------------------------------------

/// Batch rows a group at a time, each of up to Packs packs a lane.
template <class T, int W, int Lanes, int Packs, int Batch, class Place>
__global__ void __launch_bounds__(norm_threads, 2)
    norm_forward_kernel(const norm_rows_forward<T, Place> op) {
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

// --- rows that are read twice ------------------------------------------------------------------

/// Of n numbers: their mean and the sum of squares of what each is away from it. Parts are merged
/// without cancellation. Chan, Golub, LeVeque: "Updating Formulae and a Pairwise Algorithm for
/// Computing Sample Variances", 1979.
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

/// The same in every thread of the group, bit for bit: each merges the lanes in their order.
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

template <class T, int W, int Lanes, class Place>
__global__ void __launch_bounds__(norm_threads, 2)
    norm_forward_long_kernel(const norm_rows_forward<T, Place> op) {
  constexpr int rows = norm_threads / Lanes;
  const int lane = int(threadIdx.x) % Lanes;
  for (std::int64_t first = std::int64_t{blockIdx.x} * rows; first < op.R;
       first += std::int64_t{gridDim.x} * rows) {
    const std::int64_t r = first + threadIdx.x / Lanes;
    const std::int64_t C = r < op.R ? op.C : 0, at = r < op.R ? op.place(r) : 0;
    moments sum = {};
    for (std::int64_t c = std::int64_t{lane} * W; c < C; c += Lanes * W) {
      const auto x = fetch<T, W>(op.x + at + c);
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
    for (std::int64_t c = std::int64_t{lane} * W; c < C; c += Lanes * W) {
      const auto x = fetch<T, W>(op.x + at + c), gain = fetch<T, W>(op.gain + c);
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

// --- which of them -----------------------------------------------------------------------------

template <int Lanes, int Packs, int Batch, class T, class Place>
void launch_rows(const context& in, const norm_rows_forward<T, Place>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes * Batch), 16 * processors);
  launch(in, grid, norm_threads, norm_forward_kernel<T, wide<T>, Lanes, Packs, Batch, Place>, op);
}
template <int Lanes, int Packs, int Batch, class T, class Place>
void launch_rows(const context& in, const norm_rows_backward<T, Place>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes * Batch), 16 * processors);
  launch(in, grid, norm_threads, norm_backward_kernel<T, wide<T>, Lanes, Packs, Batch, Place>, op);
}

template <int W, int Lanes, class T, class Place>
void launch_long_rows(const context& in, const norm_rows_forward<T, Place>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes), 16 * processors);
  launch(in, grid, norm_threads, norm_forward_long_kernel<T, W, Lanes, Place>, op);
}
template <int W, int Lanes, class T, class Place>
void launch_long_rows(const context& in, const norm_rows_backward<T, Place>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes), 16 * processors);
  launch(in, grid, norm_threads, norm_backward_long_kernel<T, W, Lanes, Place>, op);
}

/// Long: whether rows of more than 64 packs are expected, as those of heads are not.
template <bool Long, class T, class Place>
void run_packs(const context& in, const norm_rows_forward<T, Place>& op, std::int64_t packs) {
  if (packs <= 8)
    return launch_rows<8, 1, 4>(in, op);
  if (packs <= 16)
    return launch_rows<16, 1, 4>(in, op);
  if (packs <= 32)
    return launch_rows<warp, 1, 4>(in, op);
  if (packs <= 64)
    return launch_rows<warp, 2, 2>(in, op);
  if constexpr (Long) {
    if (packs <= 96)
      return launch_rows<warp, 3, 1>(in, op);
    if (packs <= 128)
      return launch_rows<warp, 4, 1>(in, op);
    if (packs <= 192)
      return launch_rows<warp, 6, 1>(in, op);
    if (packs <= 256)
      return launch_rows<warp, 8, 1>(in, op);
    if (packs <= 512)
      return launch_rows<norm_threads, 2, 1>(in, op);
    if (packs <= 1024)
      return launch_rows<norm_threads, 4, 1>(in, op);
    if (packs <= 2048)
      return launch_rows<norm_threads, 8, 1>(in, op);
  }
  launch_long_rows<wide<T>, norm_threads>(in, op);
}

// Backwards a row takes twice the registers: less of it a lane, lest too few warps fit.
template <bool Long, class T, class Place>
void run_packs(const context& in, const norm_rows_backward<T, Place>& op, std::int64_t packs) {
  if (packs <= 8)
    return launch_rows<8, 1, 2>(in, op);
  if (packs <= 16)
    return launch_rows<16, 1, 2>(in, op);
  if (packs <= 32)
    return launch_rows<warp, 1, 2>(in, op);
  if (packs <= 64)
    return launch_rows<warp, 2, 1>(in, op);
  if constexpr (Long) {
    if (packs <= 96)
      return launch_rows<warp, 3, 1>(in, op);
    if (packs <= 128)
      return launch_rows<warp, 4, 1>(in, op);
    if constexpr (sizeof(T) == 4) {
      if (packs <= 192)
        return launch_rows<warp, 6, 1>(in, op);
    }
    if (packs <= 256)
      return launch_rows<norm_threads, 1, 1>(in, op);
    if (packs <= 512)
      return launch_rows<norm_threads, 2, 1>(in, op);
    if (packs <= 1024)
      return launch_rows<norm_threads, 4, 1>(in, op);
    if constexpr (sizeof(T) == 4) {
      if (packs <= 2048)
        return launch_rows<norm_threads, 8, 1>(in, op);
    }
  }
  launch_long_rows<wide<T>, norm_threads>(in, op);
}

template <bool Long, class Op>
void run_rows(const context& in, const Op& op, bool vectors) {
  if (vectors)
    run_packs<Long>(in, op, op.C / wide<std::remove_cvref_t<decltype(*op.x)>>);
  else if (op.C <= 2048)
    launch_long_rows<1, warp>(in, op);
  else
    launch_long_rows<1, norm_threads>(in, op);
}

}  // namespace troupe::kernels::cuda
