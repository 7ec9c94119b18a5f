// Normalization of rows: whole rows (norm.cu) or heads of a fused product (head_norm.cu).
//
// A group of lanes handles a row. A row that fits into the registers of its group is read once.
// Longer rows and unaligned rows are read twice, the second time mostly from a cache.

#pragma once

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/norm_backward.cuh"
#include "kernels/cuda/norm_forward.cuh"

namespace troupe::kernels::cuda {

template <int Lanes, int Packs, int Batch, class T, class Place, bool Sums>
void launch_rows(const context& in, const norm_rows_forward<T, Place, Sums>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes * Batch), 16 * processors);
  launch(in,
         grid,
         norm_threads,
         norm_forward_kernel<T, wide<T>, Lanes, Packs, Batch, Place, Sums>,
         op);
}
template <int Lanes, int Packs, int Batch, class T, class Place>
void launch_rows(const context& in, const norm_rows_backward<T, Place>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes * Batch), 16 * processors);
  launch(in, grid, norm_threads, norm_backward_kernel<T, wide<T>, Lanes, Packs, Batch, Place>, op);
}

template <int W, int Lanes, class T, class Place, bool Sums>
void launch_long_rows(const context& in, const norm_rows_forward<T, Place, Sums>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes), 16 * processors);
  launch(in, grid, norm_threads, norm_forward_long_kernel<T, W, Lanes, Place, Sums>, op);
}
template <int W, int Lanes, class T, class Place>
void launch_long_rows(const context& in, const norm_rows_backward<T, Place>& op) {
  const auto grid = blocks_for(ceil_div(op.R, norm_threads / Lanes), 16 * processors);
  launch(in, grid, norm_threads, norm_backward_long_kernel<T, W, Lanes, Place>, op);
}

/// Long: rows of more than 64 packs may occur; heads are shorter.
template <bool Long, class T, class Place, bool Sums>
void run_packs(const context& in, const norm_rows_forward<T, Place, Sums>& op, std::int64_t packs) {
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

// The backward pass needs twice the registers: less data per lane keeps enough warps resident.
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

// --- gradients of gain and bias ------------------------------------------------------------------

/// Sums over the rows of dy times the normalized rows, and of dy: a body of columns.cuh.
template <class T, int W, int Sums, class Place>
struct norm_weight_sums {
  static constexpr int width = W, sums = Sums, unroll = 2;
  struct inputs {
    bundle<T, W> dy, x;
    float mean, rstd;
  };
  const T* dy;
  const T* x;
  const float* mean;  ///< null for rms
  const float* rstd;
  Place place;

  __device__ __forceinline__ inputs load(std::int64_t r, std::int64_t c) const {
    const std::int64_t at = place(r) + c;
    return {fetch<T, W>(dy + at), fetch<T, W>(x + at), mean ? mean[r] : 0.0f, rstd[r]};
  }
  __device__ __forceinline__ void add(const inputs& in, float (&to)[Sums][W]) const {
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float up = in.dy[k];
      to[0][k] = fmaf(up, (in.x[k] - in.mean) * in.rstd, to[0][k]);
      if constexpr (Sums == 2)
        to[1][k] += up;
    }
  }
};

/// R rows of C columns; Op is the backward_weight of either norm.
template <int W, int Sums, class T, class Place, class Op>
void sum_norm_weights(const context& in,
                      const Op& op,
                      const Place& place,
                      std::int64_t R,
                      std::int64_t C,
                      bool centred,
                      const row_blocks& blocks) {
  const norm_weight_sums<T, W, Sums, Place> body{
      .dy = op.dy, .x = op.x, .mean = centred ? op.mean : nullptr, .rstd = op.rstd, .place = place};
  add_columns(
      in, body, R, C, blocks, {op.dgain, op.gain_accumulates}, {op.dbias, op.bias_accumulates});
}
template <class T, class Place, class Op>
void sum_norm_weights(const context& in,
                      const Op& op,
                      const Place& place,
                      std::int64_t R,
                      std::int64_t C,
                      bool centred,
                      bool vectors,
                      const row_blocks& blocks) {
  constexpr int W = wide<T>;
  if (op.dbias)
    vectors ? sum_norm_weights<W, 2, T>(in, op, place, R, C, centred, blocks)
            : sum_norm_weights<1, 2, T>(in, op, place, R, C, centred, blocks);
  else
    vectors ? sum_norm_weights<W, 1, T>(in, op, place, R, C, centred, blocks)
            : sum_norm_weights<1, 1, T>(in, op, place, R, C, centred, blocks);
}

}  // namespace troupe::kernels::cuda
