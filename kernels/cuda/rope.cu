#include "kernels/cuda/device.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr int rope_threads = 256;  ///< also the number of pairs; a block holds their sines

/// Cosine and sine of position * frequency. The angle is a double: at position 100,000 a float has
/// an error of 0.004. After reduction to pi/4, floats are enough. Same polynomials as
/// kernels/cpu/rope.cpp.
__device__ __forceinline__ void turn_of(
    std::int32_t position, float frequency, bool backward, float& cosine, float& sine) {
  const double angle = double(frequency) * double(position);
  // Number of quarter turns, and the remainder. Two parts of pi/2 keep it exact up to 2^31 radians.
  const double quarters = rint(angle * 0.63661977236758134);
  const double upper = fma(-quarters, 1.5707963267948966, angle);
  const auto x = float(fma(-quarters, 6.1232339957367660e-17, upper));

  const float x2 = x * x;
  float s = fmaf(x2, -1.95169751e-4f, 8.33217582e-3f);
  s = fmaf(x2, s, -1.66666549e-1f);
  s = fmaf(x2 * s, x, x);
  float c = fmaf(x2, 2.44380868e-5f, -1.38873644e-3f);
  c = fmaf(x2, c, 4.16666468e-2f);
  c = fmaf(x2 * x2, c, fmaf(-x2, 0.5f, 1.0f));

  // Odd quarters swap sine and cosine. The sine is negative in the last two quarters, the cosine in
  // the middle two.
  const auto quarter = unsigned(int(quarters));
  const bool odd = quarter & 1;
  cosine = (quarter + 1) & 2 ? -(odd ? s : c) : (odd ? s : c);
  sine = (quarter & 2 ? 1 : 0) != (backward ? 1 : 0) ? -(odd ? c : s) : (odd ? c : s);
}

/// The elements that a thread rotates at once: `pairs` neighbouring pairs.
template <class T, int W, bool Interleaved>
struct turned {
  static constexpr int pairs = Interleaved && W > 1 ? W / 2 : W;

  bundle<T, W> a, b;  ///< both halves; interleaved: [a b a b ..] in `a`; W = 1: the pair

  __device__ __forceinline__ void load(const T* x, std::int64_t half) {
    a = fetch<T, W>(x);
    if constexpr (!Interleaved || W == 1)
      b = fetch<T, W>(x + half);
  }
  /// The sines are in shared memory; loads are as wide as their alignment allows.
  __device__ __forceinline__ void turn(T* x,
                                       std::int64_t half,
                                       const float* cosines,
                                       const float* sines) const {
    constexpr int N = pairs < 4 ? pairs : 4;
    float first[W], second[W];
#pragma unroll
    for (int i = 0; i < pairs; i += N) {
      const auto cosine = cuda::load<float, N>(cosines + i);
      const auto sine = cuda::load<float, N>(sines + i);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float c = cosine.x[j], s = sine.x[j];
        const int k = i + j;
        if constexpr (Interleaved && W > 1) {
          first[2 * k] = fmaf(-a[2 * k + 1], s, a[2 * k] * c);
          first[2 * k + 1] = fmaf(a[2 * k], s, a[2 * k + 1] * c);
        } else {
          first[k] = fmaf(-b[k], s, a[k] * c);
          second[k] = fmaf(a[k], s, b[k] * c);
        }
      }
    }
    put(x, first);
    if constexpr (!Interleaved || W == 1)
      put(x + half, second);
  }
};

struct rope_division {
  divider pairs;  ///< of a row per tile
  divider steps;  ///< of `turned` per tile and row
  divider heads;  ///< over all groups
  divider of_group;
  divider stretches;  ///< tiles per row
  int rows;           ///< rows per tile
};

// A block computes the sines of a few rows once for all heads.
template <class T, int W, bool Interleaved>
__global__ void __launch_bounds__(rope_threads)
    rope_kernel(const rope<T> op, const rope_division by, std::int64_t tiles) {
  using piece = turned<T, W, Interleaved>;
  constexpr int at_once = 2;
  alignas(16) __shared__ float cosine[rope_threads];
  alignas(16) __shared__ float sine[rope_threads];
  const std::int64_t half = op.rotated / 2;
  // Offset from an element to its partner; neighbouring pairs are `apart` elements apart.
  const std::int64_t partner = Interleaved ? 1 : half;
  constexpr int apart = Interleaved ? 2 : 1;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const unsigned rows_before = by.stretches.quotient(unsigned(tile));
    const std::int64_t first_row = std::int64_t{rows_before} * by.rows;
    const std::int64_t first_pair
        = std::int64_t{unsigned(tile) - rows_before * by.stretches.by()} * by.pairs.by();
    const int rows = int(op.R - first_row < by.rows ? op.R - first_row : by.rows);

    const int own_row = int(by.pairs.quotient(threadIdx.x));
    const std::int64_t own = first_pair + (threadIdx.x - unsigned(own_row) * by.pairs.by());
    if (own_row < rows && own < half) {
      float c, s;
      turn_of(op.position[first_row + own_row], op.frequency[own], op.backward, c, s);
      cosine[threadIdx.x] = c * op.magnitude;
      sine[threadIdx.x] = s * op.magnitude;
    }
    __syncthreads();

    const int items = rows * int(by.heads.by() * by.steps.by());
    for (int item = int(threadIdx.x); item < items; item += at_once * rope_threads) {
      piece x[at_once];
      T* at[at_once];
      int pair[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const auto i = unsigned(item + u * rope_threads);
        const unsigned before = by.steps.quotient(i), row = by.heads.quotient(before);
        const unsigned head = before - row * by.heads.by(), group = by.of_group.quotient(head);
        const int in_row = int(i - before * by.steps.by()) * piece::pairs;
        pair[u] = int(row * by.pairs.by()) + in_row;
        at[u] = op.x + (first_row + row) * op.row + group * op.group
                + (head - group * by.of_group.by()) * op.D + (first_pair + in_row) * apart;
        if (int(i) >= items || first_pair + in_row >= half)
          at[u] = nullptr;
        else
          x[u].load(at[u], partner);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (at[u])
          x[u].turn(at[u], partner, cosine + pair[u], sine + pair[u]);
    }
    __syncthreads();
  }
}

template <int W, bool Interleaved, class T>
void turn_rows(const rope<T>& op, const context& in) {
  const std::int64_t half = op.rotated / 2;
  const std::int64_t pairs = half < rope_threads ? half : rope_threads;
  const std::int64_t stretches = ceil_div(half, pairs), rows = rope_threads / pairs;
  const rope_division by{.pairs = divider(pairs),
                         .steps = divider(ceil_div(pairs, turned<T, W, Interleaved>::pairs)),
                         .heads = divider(op.G * op.heads),
                         .of_group = divider(op.heads),
                         .stretches = divider(stretches),
                         .rows = int(rows)};
  const std::int64_t tiles = ceil_div(op.R, rows) * stretches;
  launch(in,
         blocks_for(tiles, 16 * processors),
         rope_threads,
         rope_kernel<T, W, Interleaved>,
         op,
         by,
         tiles);
}

template <class T>
void run_op(const rope<T>& op, const context& in) {
  if (op.R * op.G * op.heads * op.rotated == 0)
    return;
  constexpr int W = wide<T>;
  const bool vectors = all_aligned(op.x) && op.D % W == 0 && op.row % W == 0 && op.group % W == 0
                       && op.rotated / 2 % (op.interleaved ? W / 2 : W) == 0;
  if (op.interleaved)
    vectors ? turn_rows<W, true>(op, in) : turn_rows<1, true>(op, in);
  else
    vectors ? turn_rows<W, false>(op, in) : turn_rows<1, false>(op, in);
}

}  // namespace

#define TROUPE_INSTANTIATE(T)                      \
  template <>                                      \
  void run(const rope<T>& op, const context& in) { \
    run_op(op, in);                                \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
