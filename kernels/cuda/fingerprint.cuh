// Fingerprints (kernels/op/fingerprint.hpp) inside kernels that read or write the data anyway.
//
// Blocks add to the sums of the grains; a second kernel turns these into the results. Integer sums
// do not depend on the order, so blocks use atomics.

#pragma once

#include "kernels/cuda/pieces.cuh"
#include "kernels/op/fingerprint.hpp"

namespace troupe::kernels::cuda {

using fingerprint_word = unsigned long long;  // the type that atomicAdd takes

/// Size of the sums of `grains` grains.
constexpr std::size_t bytes_of_grain_sums(std::int64_t grains) {
  return 2 * sizeof(fingerprint_word) * std::size_t(grains);
}

/// One thread's sums for one grain of each of `Arrays` arrays.
template <int Arrays>
class grain_fingerprints {
 public:
  /// The keys of consecutive arrays are `stride` apart.
  __device__ __forceinline__ grain_fingerprints(const std::uint64_t* keys, std::int64_t stride) {
#pragma unroll
    for (int a = 0; a < Arrays; ++a)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        keys_[a][j] = fingerprint_key_of(keys[a * stride], j);
        sums_[a][j] = 0;
      }
  }

  /// `pair`: number of the pair within the grain.
  __device__ __forceinline__ void add(int array,
                                      std::uint32_t low,
                                      std::uint32_t high,
                                      std::int64_t pair) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
      sums_[array][j] += fingerprint_term(low, high, keys_[array][j].at(std::uint64_t(pair)));
  }

  __device__ __forceinline__ fingerprint_word sum(int array, int j) const {
    return sums_[array][j];
  }

  /// Adds the block's sums to the sums of the grain; those of consecutive arrays are `stride`
  /// grains apart.
  template <int Threads>
  __device__ __forceinline__ void flush(fingerprint_word* to, std::int64_t stride) const {
#pragma unroll
    for (int a = 0; a < Arrays; ++a)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const fingerprint_word all = block_sum<Threads>(sums_[a][j]);
        if (threadIdx.x == 0)
          atomicAdd(to + 2 * a * stride + j, all);
      }
  }

 private:
  fingerprint_key keys_[Arrays][2];
  fingerprint_word sums_[Arrays][2];
};

constexpr int grains_threads = 256;

template <int Threads>
__global__ void __launch_bounds__(Threads)
    clear_grains_kernel(fingerprint_word* words, std::int64_t n) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * Threads + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * Threads)
    words[i] = 0;
}

/// Clears the sums before kernels add to them.
inline void clear_grain_sums(const context& in, fingerprint_word* sums, std::int64_t grains) {
  launch(in,
         blocks_for(ceil_div(2 * grains, grains_threads), processors),
         grains_threads,
         clear_grains_kernel<grains_threads>,
         sums,
         2 * grains);
}

struct grains_piece {
  fingerprint_word* result;
  std::int64_t grains;
  std::int64_t before;
  std::int64_t first;
};

// One block per array. Additions with carry do not depend on the order either.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    add_grains_kernel(const __grid_constant__ piece_table<grains_piece> table,
                      const fingerprint_word* sums) {
  __shared__ fingerprint_word high[Threads], low[Threads];
  const grains_piece& piece = table.piece[blockIdx.x];
  const int t = int(threadIdx.x);
  fingerprint_sum sum{0, 0};
  for (std::int64_t g = t; g < piece.grains; g += Threads)
    sum.add(sums[2 * (piece.before + g)], sums[2 * (piece.before + g) + 1]);
  for (int half = Threads / 2; half > 0; half /= 2) {
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

/// Writes results (count, 2). Array i has grains_of(i) grains; the sums of the arrays are
/// consecutive.
template <class GrainsOf>
void add_grain_sums(const context& in,
                    std::int64_t count,
                    std::uint64_t* results,
                    const GrainsOf& grains_of,
                    const fingerprint_word* sums) {
  static_assert(sizeof(fingerprint_word) == sizeof(*results));
  std::int64_t before = 0;
  in_tables<grains_piece>(
      count,
      [&](std::int64_t i) {
        const grains_piece out{.result = reinterpret_cast<fingerprint_word*>(results) + 2 * i,
                               .grains = grains_of(i),
                               .before = before};
        before += out.grains;
        return out;
      },
      [](const grains_piece&) { return std::int64_t{1}; },
      [&](const piece_table<grains_piece>& table, std::int64_t pieces, std::int64_t) {
        launch(
            in, unsigned(pieces), grains_threads, add_grains_kernel<grains_threads>, table, sums);
      });
}

}  // namespace troupe::kernels::cuda
