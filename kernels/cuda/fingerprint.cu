#include "kernels/cuda/fingerprint.cuh"

#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int fingerprint_threads = 256, fingerprint_steps = 4;
/// Four words per step: two pairs.
constexpr std::int64_t fingerprint_tile = std::int64_t{fingerprint_threads} * 4 * fingerprint_steps;

struct fingerprint_piece {
  const std::uint32_t* x;
  std::int64_t n;
  const std::uint64_t* keys;
  std::int64_t before;  ///< grains of earlier pieces
  std::int64_t first;
};

// A block handles consecutive tiles and adds once per grain.
__global__ void __launch_bounds__(fingerprint_threads)
    fingerprint_kernel(const __grid_constant__ piece_table<fingerprint_piece> table,
                       std::int64_t tiles,
                       std::int64_t grain,
                       fingerprint_word* sums) {
  constexpr std::int64_t step = std::int64_t{fingerprint_threads} * 4;
  const std::int64_t tiles_a_grain = ceil_div(grain, fingerprint_tile);
  const std::int64_t end = tiles * (blockIdx.x + 1) / gridDim.x;
  for (std::int64_t tile = tiles * blockIdx.x / gridDim.x; tile < end;) {
    const fingerprint_piece& piece = table.piece[table.find(tile)];
    const std::int64_t g = (tile - piece.first) / tiles_a_grain, left = piece.n - g * grain;
    const std::int64_t n = left < grain ? left : grain;
    const std::uint32_t* const x = piece.x + g * grain;
    const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
    const std::int64_t begin = piece.first + g * tiles_a_grain;
    const std::int64_t stop = begin + ceil_div(n, fingerprint_tile);
    grain_fingerprints<1> of(piece.keys + g, 0);
    for (; tile < end && tile < stop; ++tile) {
      const std::int64_t at = (tile - begin) * fingerprint_tile + std::int64_t{threadIdx.x} * 4;
      if (aligned && at + (fingerprint_steps - 1) * step + 4 <= n) {
        pack<std::uint32_t, 4> words[fingerprint_steps];
#pragma unroll
        for (int s = 0; s < fingerprint_steps; ++s)
          words[s] = load<std::uint32_t, 4>(x + at + s * step);
#pragma unroll
        for (int s = 0; s < fingerprint_steps; ++s) {
          const std::int64_t pair = (at + s * step) / 2;
          of.add(0, words[s].x[0], words[s].x[1], pair);
          of.add(0, words[s].x[2], words[s].x[3], pair + 1);
        }
      } else {
        for (int s = 0; s < fingerprint_steps; ++s)
          for (int k = 0; k < 4; k += 2)
            if (const std::int64_t i = at + s * step + k; i < n)
              of.add(0, x[i], i + 1 < n ? x[i + 1] : 0, i / 2);
      }
    }
    of.flush<fingerprint_threads>(sums + 2 * (piece.before + g), 0);
  }
}

}  // namespace

std::size_t scratch(const fingerprint<float>& op) {
  return bytes_of_grain_sums(grains_of(op));
}

template <>
void run(const fingerprint<float>& op, const context& in) {
  auto* const sums = scratch_array<fingerprint_word>(in, scratch(op));
  clear_grain_sums(in, sums, grains_of(op));
  std::int64_t before = 0;
  in_tables<fingerprint_piece>(
      op.count,
      [&](std::int64_t i) {
        const auto& one = op.pieces[i];
        const fingerprint_piece out{.x = static_cast<const std::uint32_t*>(one.x),
                                    .n = one.n,
                                    .keys = one.keys,
                                    .before = before};
        before += grains_in(one.n, op.grain);
        return out;
      },
      [&](const fingerprint_piece& p) { return tiles_in_grains(p.n, op.grain, fingerprint_tile); },
      [&](const piece_table<fingerprint_piece>& table, std::int64_t tiles, std::int64_t) {
        launch(in,
               blocks_for(tiles, 16 * processors),
               fingerprint_threads,
               fingerprint_kernel,
               table,
               tiles,
               op.grain,
               sums);
      });
  add_grain_sums(
      in,
      op.count,
      op.results,
      [&](std::int64_t i) { return grains_in(op.pieces[i].n, op.grain); },
      sums);
}

}  // namespace troupe::kernels::cuda
