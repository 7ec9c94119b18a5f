#include "kernels/cuda/fingerprint.cuh"
#include "kernels/cuda/run.hpp"

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
  const std::uint64_t* keys;
  std::int64_t before;  ///< grains of earlier pieces, per array
  float decay;          ///< weight decay per step
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

/// Adds a pair of words of x, of m and of v: element k of `low` and element l of `high`.
template <int W>
__device__ __forceinline__ void take_pair(grain_fingerprints<3>& of,
                                          const adamw_state<W>& low,
                                          int k,
                                          const adamw_state<W>& high,
                                          int l,
                                          std::int64_t pair) {
  of.add(0, __float_as_uint(low.x.x[k]), __float_as_uint(high.x.x[l]), pair);
  of.add(1, __float_as_uint(low.m.x[k]), __float_as_uint(high.m.x[l]), pair);
  of.add(2, __float_as_uint(low.v.x[k]), __float_as_uint(high.v.x[l]), pair);
}

/// Updates elements i and i + 1 of the grain at `origin` with n elements, as far as they exist.
__device__ __forceinline__ void update_pair(const adamw_piece& piece,
                                            std::int64_t origin,
                                            std::int64_t i,
                                            std::int64_t n,
                                            const adamw_numbers& by,
                                            grain_fingerprints<3>& of) {
  adamw_state<1> low, high = {};
  read(low, piece, origin + i);
  update(low, piece, origin + i, by);
  if (i + 1 < n) {
    read(high, piece, origin + i + 1);
    update(high, piece, origin + i + 1, by);
  }
  take_pair(of, low, 0, high, 0, i / 2);
}

// Does the work of adamw_kernel and computes fingerprints of the written values. A tile lies in one
// grain. A block handles consecutive tiles, so it adds once per grain.
__global__ void __launch_bounds__(adamw_threads)
    adamw_fingerprints_kernel(const __grid_constant__ piece_table<adamw_piece> table,
                              std::int64_t tiles,
                              std::int64_t grain,
                              const adamw_numbers by,
                              fingerprint_word* sums) {
  constexpr int W = adamw_width;
  constexpr std::int64_t step = std::int64_t{adamw_threads} * W;
  const std::int64_t tiles_a_grain = ceil_div(grain, adamw_tile);
  const std::int64_t end = tiles * (blockIdx.x + 1) / gridDim.x;
  for (std::int64_t tile = tiles * blockIdx.x / gridDim.x; tile < end;) {
    const adamw_piece& piece = table.piece[table.find(tile)];
    const std::int64_t g = (tile - piece.first) / tiles_a_grain, origin = g * grain;
    const std::int64_t n = piece.n - origin < grain ? piece.n - origin : grain;
    const std::int64_t begin = piece.first + g * tiles_a_grain;
    const std::int64_t stop = begin + ceil_div(n, adamw_tile);
    const std::int64_t grains = ceil_div(piece.n, grain);
    const bool aligned = piece.aligned && origin % W == 0;
    grain_fingerprints<3> of(piece.keys + g, grains);
    for (; tile < end && tile < stop; ++tile) {
      const std::int64_t at = (tile - begin) * adamw_tile + std::int64_t{threadIdx.x} * W;
      if (aligned && at + (adamw_steps - 1) * step + W <= n) {
        adamw_state<W> state[adamw_steps];
#pragma unroll
        for (int s = 0; s < adamw_steps; ++s)
          read(state[s], piece, origin + at + s * step);
#pragma unroll
        for (int s = 0; s < adamw_steps; ++s) {
          update(state[s], piece, origin + at + s * step, by);
#pragma unroll
          for (int k = 0; k < W; k += 2)
            take_pair(of, state[s], k, state[s], k + 1, (at + s * step + k) / 2);
        }
      } else {
        for (int s = 0; s < adamw_steps; ++s)
          for (int k = 0; k < W; k += 2)
            if (const std::int64_t i = at + s * step + k; i < n)
              update_pair(piece, origin, i, n, by, of);
      }
    }
    of.flush<adamw_threads>(sums + 2 * (3 * piece.before + g), grains);
  }
}

}  // namespace

std::size_t scratch(const adamw_pieces<float>& op) {
  return op.fingerprints ? bytes_of_grain_sums(3 * grains_of(op)) : 0;
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
  const bool prints = op.fingerprints != nullptr;
  auto* const sums = prints ? scratch_array<fingerprint_word>(in, scratch(op)) : nullptr;
  if (prints)
    clear_grain_sums(in, sums, 3 * grains_of(op));
  std::int64_t before = 0;
  in_tables<adamw_piece>(
      op.count,
      [&](std::int64_t i) {
        const auto& p = op.pieces[i];
        const auto from = source_of(p.from, p.x, p.m, p.v);
        const adamw_piece out{
            .x = p.x,
            .m = p.m,
            .v = p.v,
            .from = from,
            .dx = p.dx,
            .rounded = p.rounded,
            .n = p.n,
            .keys = p.keys,
            .before = before,
            .decay = op.rate * p.weight_decay,
            .aligned = all_aligned(p.x, p.m, p.v, from.x, from.m, from.v, p.dx, p.rounded)};
        before += prints ? grains_in(p.n, op.grain) : 0;
        return out;
      },
      [&](const adamw_piece& p) {
        return prints ? tiles_in_grains(p.n, op.grain, adamw_tile) : ceil_div(p.n, adamw_tile);
      },
      [&](const piece_table<adamw_piece>& table, std::int64_t tiles, std::int64_t) {
        const auto grid = blocks_for(tiles, 16 * processors);
        if (prints)
          launch(
              in, grid, adamw_threads, adamw_fingerprints_kernel, table, tiles, op.grain, by, sums);
        else
          launch(in, grid, adamw_threads, adamw_kernel, table, tiles, by);
      });
  if (prints)
    add_grain_sums(
        in,
        3 * op.count,
        op.fingerprints,
        [&](std::int64_t i) { return grains_in(op.pieces[i / 3].n, op.grain); },
        sums);
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
