#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/run.hpp"

#include <vector>

namespace troupe::kernels::cuda {

namespace {

constexpr int adamw_threads = 256, adamw_width = 4, adamw_steps = 2;
constexpr std::int64_t adamw_tile = std::int64_t{adamw_threads} * adamw_width * adamw_steps;

struct adamw_piece {
  float* x;
  float* m;
  float* v;
  adamw_source<float> from;
  const float* dx;
  void* rounded;
  std::int64_t n;
  std::int64_t first;
  float decay;  ///< of a step
  bool aligned;
};

struct adamw_numbers {
  float gradient_scale, beta1, beta2, rest1, rest2, eps, step1, inverse2;
  bool to_f16;
};

template <int W>
struct adamw_state {
  pack<float, W> x, m, v, dx;
};

template <int W>
__device__ __forceinline__ void read(adamw_state<W>& to, const adamw_piece& piece, std::int64_t i) {
  to.x = load<float, W>(piece.from.x + i);
  to.m = load<float, W>(piece.from.m + i);
  to.v = load<float, W>(piece.from.v + i);
  to.dx = load<float, W>(piece.dx + i);
}

template <int W>
__device__ __forceinline__ void update(adamw_state<W>& at,
                                       const adamw_piece& to,
                                       std::int64_t i,
                                       const adamw_numbers& by) {
#pragma unroll
  for (int k = 0; k < W; ++k) {
    const float g = at.dx.x[k] * by.gradient_scale;
    at.m.x[k] = fmaf(by.beta1, at.m.x[k], by.rest1 * g);
    at.v.x[k] = fmaf(by.beta2, at.v.x[k], by.rest2 * (g * g));
    const float root = sqrtf(at.v.x[k] * by.inverse2) + by.eps;
    at.x.x[k] -= fmaf(to.decay, at.x.x[k], by.step1 * at.m.x[k] / root);
  }
  store_global(to.x + i, at.x);
  store_global(to.m + i, at.m);
  store_global(to.v + i, at.v);
  if (!to.rounded)
    return;
  if (by.to_f16) {
    pack<f16, W> rounded;
#pragma unroll
    for (int k = 0; k < W; ++k)
      rounded.x[k] = from_float<f16>(at.x.x[k]);
    store_global(static_cast<f16*>(to.rounded) + i, rounded);
  } else {
    pack<bf16, W> rounded;
#pragma unroll
    for (int k = 0; k < W; ++k)
      rounded.x[k] = from_float<bf16>(at.x.x[k]);
    store_global(static_cast<bf16*>(to.rounded) + i, rounded);
  }
}

__global__ void __launch_bounds__(adamw_threads)
    adamw_kernel(const __grid_constant__ piece_table<adamw_piece> table,
                 std::int64_t tiles,
                 const adamw_numbers by) {
  constexpr int W = adamw_width;
  constexpr std::int64_t step = std::int64_t{adamw_threads} * W;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const adamw_piece& piece = table.piece[table.find(tile)];
    const std::int64_t n = piece.n;
    const std::int64_t at = (tile - piece.first) * adamw_tile + std::int64_t{threadIdx.x} * W;
    if (piece.aligned && at + (adamw_steps - 1) * step + W <= n) {
      adamw_state<W> state[adamw_steps];
#pragma unroll
      for (int s = 0; s < adamw_steps; ++s)
        read(state[s], piece, at + s * step);
#pragma unroll
      for (int s = 0; s < adamw_steps; ++s)
        update(state[s], piece, at + s * step, by);
      continue;
    }
    for (int s = 0; s < adamw_steps; ++s)
      for (int k = 0; k < W; ++k)
        if (const std::int64_t i = at + s * step + k; i < n) {
          adamw_state<1> state;
          read(state, piece, i);
          update(state, piece, i, by);
        }
  }
}

/// Of x, m and v of every piece, as they lie.
std::vector<fingerprint<float>::piece> arrays_of(const adamw_pieces<float>& op) {
  std::vector<fingerprint<float>::piece> out;
  for (std::int64_t i = 0; i < op.count; ++i) {
    const auto& p = op.pieces[i];
    const auto grains = grains_in(p.n, op.grain);
    out.push_back({p.x, p.n, p.keys});
    out.push_back({p.m, p.n, p.keys + grains});
    out.push_back({p.v, p.n, p.keys + 2 * grains});
  }
  return out;
}

fingerprint<float> fingerprints_of(const adamw_pieces<float>& op,
                                   const std::vector<fingerprint<float>::piece>& arrays) {
  return {op.fingerprints, arrays.data(), std::int64_t(arrays.size()), op.grain};
}

}  // namespace

std::size_t scratch(const adamw_pieces<float>& op) {
  return op.fingerprints ? scratch(fingerprints_of(op, arrays_of(op))) : 0;
}

template <>
void run(const adamw_pieces<float>& op, const context& in) {
  const adamw_numbers by{.gradient_scale = op.gradient_scale,
                         .beta1 = op.beta1,
                         .beta2 = op.beta2,
                         .rest1 = 1 - op.beta1,
                         .rest2 = 1 - op.beta2,
                         .eps = op.eps,
                         .step1 = op.rate / op.correction1,
                         .inverse2 = 1 / op.correction2,
                         .to_f16 = op.rounded_to == narrow_type::f16};
  in_tables<adamw_piece>(
      op.count,
      [&](std::int64_t i) {
        const auto& p = op.pieces[i];
        const auto from = source_of(p.from, p.x, p.m, p.v);
        return adamw_piece{
            .x = p.x,
            .m = p.m,
            .v = p.v,
            .from = from,
            .dx = p.dx,
            .rounded = p.rounded,
            .n = p.n,
            .decay = op.rate * p.weight_decay,
            .aligned = all_aligned(p.x, p.m, p.v, from.x, from.m, from.v, p.dx, p.rounded)};
      },
      [](const adamw_piece& p) { return ceil_div(p.n, adamw_tile); },
      [&](const piece_table<adamw_piece>& table, std::int64_t tiles, std::int64_t) {
        launch(
            in, blocks_for(tiles, 16 * processors), adamw_threads, adamw_kernel, table, tiles, by);
      });
  if (op.fingerprints) {
    const auto arrays = arrays_of(op);
    run(fingerprints_of(op, arrays), in);
  }
}

template <>
void run(const adamw<float>& op, const context& in) {
  const adamw_pieces<float>::piece one{.x = op.x,
                                       .m = op.m,
                                       .v = op.v,
                                       .dx = op.dx,
                                       .rounded = op.rounded,
                                       .n = op.n,
                                       .weight_decay = op.weight_decay,
                                       .from = op.from};
  run(adamw_pieces<float>{.pieces = &one,
                          .count = 1,
                          .rounded_to = op.rounded_to,
                          .gradient_scale = op.gradient_scale,
                          .rate = op.rate,
                          .beta1 = op.beta1,
                          .beta2 = op.beta2,
                          .eps = op.eps,
                          .correction1 = op.correction1,
                          .correction2 = op.correction2},
      in);
}

}  // namespace troupe::kernels::cuda
