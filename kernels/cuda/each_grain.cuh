// Elementwise kernels (each.cuh) that also compute fingerprints of their results
// (kernels/op/fingerprint.hpp).
//
// `store` of a body returns the written values: one pack per array.

#pragma once

#include "kernels/cuda/each.cuh"
#include "kernels/cuda/fingerprint.cuh"

namespace troupe::kernels::cuda {

template <int Arrays, int W>
struct written_packs {
  pack<float, W> of[Arrays];
};

template <int Arrays, int W>
__device__ __forceinline__ void take_pairs(grain_fingerprints<Arrays>& of,
                                           const written_packs<Arrays, W>& x,
                                           std::int64_t at) {
#pragma unroll
  for (int a = 0; a < Arrays; ++a)
#pragma unroll
    for (int k = 0; k < W; k += 2)
      of.add(a, __float_as_uint(x.of[a].x[k]), __float_as_uint(x.of[a].x[k + 1]), (at + k) / 2);
}

// A tile lies in one grain; a block handles consecutive tiles.
template <int Arrays, class Wide, class One>
__global__ void __launch_bounds__(each_threads) each_grain_kernel(const Wide wide_body,
                                                                  const One one_body,
                                                                  bool vectors,
                                                                  std::int64_t n,
                                                                  std::int64_t tiles,
                                                                  std::int64_t grain,
                                                                  const std::uint64_t* keys,
                                                                  fingerprint_word* sums) {
  constexpr int W = Wide::width, steps = Wide::steps;
  static_assert(W % 2 == 0 && One::width == 1);
  constexpr std::int64_t step = std::int64_t{each_threads} * W, size = step * steps;
  const std::int64_t tiles_a_grain = ceil_div(grain, size), grains = ceil_div(n, grain);
  const std::int64_t end = tiles * (blockIdx.x + 1) / gridDim.x;
  for (std::int64_t tile = tiles * blockIdx.x / gridDim.x; tile < end;) {
    const std::int64_t g = tile / tiles_a_grain, origin = g * grain;
    const std::int64_t here = n - origin < grain ? n - origin : grain;
    const std::int64_t begin = g * tiles_a_grain, stop = begin + ceil_div(here, size);
    const bool aligned = vectors && origin % W == 0;
    grain_fingerprints<Arrays> of(keys + g, grains);
    for (; tile < end && tile < stop; ++tile)
      for (int s = 0; s < steps; ++s) {
        const std::int64_t at = (tile - begin) * size + s * step + std::int64_t{threadIdx.x} * W;
        if (aligned && at + W <= here) {
          take_pairs(of, wide_body.store(origin + at, wide_body.load(origin + at)), at);
          continue;
        }
        for (int k = 0; k < W; k += 2) {
          const std::int64_t i = at + k;
          if (i >= here)
            continue;
          written_packs<Arrays, 2> two = {};
          for (int l = 0; l < 2 && i + l < here; ++l) {
            const auto one = one_body.store(origin + i + l, one_body.load(origin + i + l));
            for (int a = 0; a < Arrays; ++a)
              two.of[a].x[l] = one.of[a].x[0];
          }
          take_pairs(of, two, i);
        }
      }
    of.template flush<each_threads>(sums + 2 * g, grains);
  }
}

/// Elements [0, n) as in each_flat, with fingerprints; the grain sums are in the scratch memory.
template <int Arrays, int Width, class Make>
void each_grain(const context& in,
                std::int64_t n,
                bool vectors,
                const written_fingerprints& wanted,
                const Make& make) {
  const auto body = make(width_of<Width>());
  constexpr std::int64_t size
      = std::int64_t{each_threads} * Width * std::remove_const_t<decltype(body)>::steps;
  const std::int64_t grains = grains_in(n, wanted.grain);
  auto* const sums = scratch_array<fingerprint_word>(in, bytes_of_grain_sums(Arrays * grains));
  clear_grain_sums(in, sums, Arrays * grains);
  const std::int64_t tiles = tiles_in_grains(n, wanted.grain, size);
  const auto one = make(width_of<1>());
  launch(in,
         blocks_for(tiles, 16 * processors),
         each_threads,
         each_grain_kernel<Arrays,
                           std::remove_const_t<decltype(body)>,
                           std::remove_const_t<decltype(one)>>,
         body,
         one,
         vectors,
         n,
         tiles,
         wanted.grain,
         wanted.keys,
         sums);
  add_grain_sums(
      in, Arrays, wanted.results, [&](std::int64_t) { return grains; }, sums);
}

}  // namespace troupe::kernels::cuda
