#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

using sum_word = unsigned long long;  // what atomicAdd takes

constexpr int fingerprint_threads = 256, fingerprint_steps = 4;
/// Four words a step: two pairs.
constexpr std::int64_t fingerprint_tile = std::int64_t{fingerprint_threads} * 4 * fingerprint_steps;

struct fingerprint_piece {
  const std::uint32_t* x;
  std::int64_t n;
  const std::uint64_t* keys;
  std::int64_t before;  ///< grains of the pieces before
  std::int64_t first;
};

__device__ __forceinline__ void add_pair(std::uint32_t low,
                                         std::uint32_t high,
                                         std::int64_t pair,
                                         const fingerprint_key& first,
                                         const fingerprint_key& second,
                                         sum_word& a,
                                         sum_word& b) {
  a += fingerprint_term(low, high, first.at(std::uint64_t(pair)));
  b += fingerprint_term(low, high, second.at(std::uint64_t(pair)));
}

__global__ void clear_words(sum_word* words, std::int64_t n) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x)
    words[i] = 0;
}

/// Adds what the block's threads have to the sums of a grain.
__device__ __forceinline__ void flush(sum_word a, sum_word b, sum_word* sums) {
  a = block_sum<fingerprint_threads>(a);
  b = block_sum<fingerprint_threads>(b);
  if (threadIdx.x == 0) {
    atomicAdd(sums, a);
    atomicAdd(sums + 1, b);
  }
}

// Integer sums have no order: blocks add to the sums of a grain as they come, each once for every
// grain among its tiles, which are neighbours.
__global__ void __launch_bounds__(fingerprint_threads)
    fingerprint_kernel(const __grid_constant__ piece_table<fingerprint_piece> table,
                       std::int64_t tiles,
                       std::int64_t grain,
                       sum_word* sums) {
  constexpr std::int64_t step = std::int64_t{fingerprint_threads} * 4;
  const std::int64_t tiles_a_grain = ceil_div(grain, fingerprint_tile);
  const std::int64_t end = tiles * (blockIdx.x + 1) / gridDim.x;
  for (std::int64_t tile = tiles * blockIdx.x / gridDim.x; tile < end;) {
    const fingerprint_piece& piece = table.piece[table.find(tile)];
    const std::int64_t g = (tile - piece.first) / tiles_a_grain, left = piece.n - g * grain;
    const std::int64_t n = left < grain ? left : grain;
    const std::uint32_t* const x = piece.x + g * grain;
    const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
    const std::uint64_t key = piece.keys[g];
    const auto first = fingerprint_key_of(key, 0), second = fingerprint_key_of(key, 1);
    const std::int64_t begin = piece.first + g * tiles_a_grain;
    const std::int64_t stop = begin + ceil_div(n, fingerprint_tile);
    sum_word a = 0, b = 0;
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
          add_pair(words[s].x[0], words[s].x[1], pair, first, second, a, b);
          add_pair(words[s].x[2], words[s].x[3], pair + 1, first, second, a, b);
        }
      } else {
        for (int s = 0; s < fingerprint_steps; ++s)
          for (int k = 0; k < 4; k += 2)
            if (const std::int64_t i = at + s * step + k; i < n)
              add_pair(x[i], i + 1 < n ? x[i + 1] : 0, i / 2, first, second, a, b);
      }
    }
    flush(a, b, sums + 2 * (piece.before + g));
  }
}

struct grains_piece {
  sum_word* result;
  std::int64_t grains;
  std::int64_t before;
  std::int64_t first;
};

// A block for each piece. Carries make no order either.
__global__ void __launch_bounds__(fingerprint_threads)
    grains_kernel(const __grid_constant__ piece_table<grains_piece> table, const sum_word* sums) {
  __shared__ sum_word high[fingerprint_threads], low[fingerprint_threads];
  const grains_piece& piece = table.piece[blockIdx.x];
  const int t = int(threadIdx.x);
  fingerprint_sum sum{0, 0};
  for (std::int64_t g = t; g < piece.grains; g += fingerprint_threads)
    sum.add(sums[2 * (piece.before + g)], sums[2 * (piece.before + g) + 1]);
  for (int half = fingerprint_threads / 2; half > 0; half /= 2) {
    high[t] = sum.high;
    low[t] = sum.low;
    __syncthreads();
    if (t < half)
      sum.add(high[t + half], low[t + half]);
    __syncthreads();
  }
  if (t == 0) {
    piece.result[0] = sum.high;
    piece.result[1] = sum.low;
  }
}

}  // namespace

std::size_t scratch(const fingerprint<float>& op) {
  return 2 * sizeof(sum_word) * std::size_t(grains_of(op));
}

template <>
void run(const fingerprint<float>& op, const context& in) {
  static_assert(sizeof(sum_word) == sizeof(*op.results));
  auto* const sums = scratch_array<sum_word>(in, scratch(op));
  const auto words = 2 * grains_of(op);
  launch(in, blocks_for(ceil_div(words, 256), processors), 256, clear_words, sums, words);
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
      [&](const fingerprint_piece& p) {
        const auto whole = p.n / op.grain;
        return whole * ceil_div(op.grain, fingerprint_tile)
               + ceil_div(p.n - whole * op.grain, fingerprint_tile);
      },
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
  before = 0;
  in_tables<grains_piece>(
      op.count,
      [&](std::int64_t i) {
        const grains_piece out{.result = reinterpret_cast<sum_word*>(op.results) + 2 * i,
                               .grains = grains_in(op.pieces[i].n, op.grain),
                               .before = before};
        before += out.grains;
        return out;
      },
      [](const grains_piece&) { return std::int64_t{1}; },
      [&](const piece_table<grains_piece>& table, std::int64_t pieces, std::int64_t) {
        launch(in, unsigned(pieces), fingerprint_threads, grains_kernel, table, sums);
      });
}

}  // namespace troupe::kernels::cuda
