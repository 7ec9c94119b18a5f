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
  std::uint64_t key;
  std::int64_t number;  ///< of its results
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

/// Adds what the block's threads have to the results of a piece, and begins anew.
__device__ __forceinline__ void flush(const fingerprint_piece& piece,
                                      sum_word& a,
                                      sum_word& b,
                                      sum_word* results) {
  a = block_sum<fingerprint_threads>(a);
  b = block_sum<fingerprint_threads>(b);
  if (threadIdx.x == 0) {
    atomicAdd(results + 2 * piece.number, a);
    atomicAdd(results + 2 * piece.number + 1, b);
  }
  a = 0;
  b = 0;
}

// Integer sums have no order: blocks add to the result as they come, each once for every piece
// among its tiles, which are neighbours.
__global__ void __launch_bounds__(fingerprint_threads)
    fingerprint_kernel(const __grid_constant__ piece_table<fingerprint_piece> table,
                       std::int64_t tiles,
                       sum_word* results) {
  constexpr std::int64_t step = std::int64_t{fingerprint_threads} * 4;
  const std::int64_t end = tiles * (blockIdx.x + 1) / gridDim.x;
  sum_word a = 0, b = 0;
  int current = -1;
  for (std::int64_t tile = tiles * blockIdx.x / gridDim.x; tile < end; ++tile) {
    const int found = table.find(tile);
    if (current >= 0 && found != current)
      flush(table.piece[current], a, b, results);
    current = found;
    const fingerprint_piece& piece = table.piece[current];
    const auto first = fingerprint_key_of(piece.key, 0), second = fingerprint_key_of(piece.key, 1);
    const std::uint32_t* const x = piece.x;
    const std::int64_t n = piece.n;
    const std::int64_t at = (tile - piece.first) * fingerprint_tile + std::int64_t{threadIdx.x} * 4;
    if (reinterpret_cast<std::uintptr_t>(x) % 16 == 0
        && at + (fingerprint_steps - 1) * step + 4 <= n) {
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
  if (current >= 0)
    flush(table.piece[current], a, b, results);
}

}  // namespace

template <>
void run(const fingerprint<float>& op, const context& in) {
  static_assert(sizeof(sum_word) == sizeof(*op.results));
  auto* const results = reinterpret_cast<sum_word*>(op.results);
  launch(in,
         blocks_for(ceil_div(2 * op.count, 256), processors),
         256,
         clear_words,
         results,
         2 * op.count);
  in_tables<fingerprint_piece>(
      op.count,
      [&](std::int64_t i) {
        return fingerprint_piece{.x = static_cast<const std::uint32_t*>(op.pieces[i].x),
                                 .n = op.pieces[i].n,
                                 .key = op.pieces[i].key,
                                 .number = i};
      },
      [](const fingerprint_piece& p) { return ceil_div(p.n, fingerprint_tile); },
      [&](const piece_table<fingerprint_piece>& table, std::int64_t tiles, std::int64_t) {
        launch(in,
               blocks_for(tiles, 16 * processors),
               fingerprint_threads,
               fingerprint_kernel,
               table,
               tiles,
               results);
      });
}

}  // namespace troupe::kernels::cuda
