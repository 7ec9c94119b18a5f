// Elementwise kernels: division of the elements among threads.
//
// A body handles `width` neighbouring elements per step and `steps` steps per thread at a time. All
// loads of these steps come before the first store:
//
//   inputs load(std::int64_t i) const;             elements i, ..., i + width - 1
//   void store(std::int64_t i, const inputs&) const;

#pragma once

#include "kernels/cuda/device.cuh"

#include <type_traits>

namespace troupe::kernels::cuda {

constexpr int each_threads = 256;

template <class Body>
__global__ void __launch_bounds__(each_threads)
    each_kernel(const Body body, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t step = std::int64_t{each_threads} * Body::width;
  constexpr std::int64_t tile = step * Body::steps;
  for (std::int64_t first = begin + blockIdx.x * tile; first < end; first += gridDim.x * tile) {
    const std::int64_t at = first + std::int64_t{threadIdx.x} * Body::width;
    typename Body::inputs in[Body::steps];
#pragma unroll
    for (int s = 0; s < Body::steps; ++s)
      if (at + s * step < end)
        in[s] = body.load(at + s * step);
#pragma unroll
    for (int s = 0; s < Body::steps; ++s)
      if (at + s * step < end)
        body.store(at + s * step, in[s]);
  }
}

/// Elements [begin, end); their number is a multiple of the body's width.
template <class Body>
void each(const context& in, const Body& body, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t tile = std::int64_t{each_threads} * Body::width * Body::steps;
  const auto grid = blocks_for(ceil_div(end - begin, tile), 16 * processors);
  launch(in, grid, each_threads, each_kernel<Body>, body, begin, end);
}

template <int N>
using width_of = std::integral_constant<int, N>;

/// Elements [0, n): in steps of Width if `vectors`, and the rest one by one. make(width_of<W>())
/// returns the body.
template <int Width, class Make>
void each_flat(const context& in, std::int64_t n, bool vectors, const Make& make) {
  const std::int64_t whole = vectors ? n / Width * Width : 0;
  each(in, make(width_of<Width>()), 0, whole);
  each(in, make(width_of<1>()), whole, n);
}

/// Elements of R rows of C columns, for bodies that need the row. make(width, first row, divider by
/// the steps of a row) returns the body for a part of the rows with fewer than 2^31 steps. Element
/// 0 is the first of that part. With `vectors`, in steps of Width; C must be a multiple of it.
template <int Width, class Make>
void each_in_rows(
    const context& in, std::int64_t R, std::int64_t C, bool vectors, const Make& make) {
  if (C == 0)
    return;
  const std::int64_t steps = vectors ? C / Width : C;
  const std::int64_t most = ((std::int64_t{1} << 31) - 1) / steps;
  for (std::int64_t r = 0; r < R; r += most) {
    const std::int64_t rows = R - r < most ? R - r : most;
    if (vectors)
      each(in, make(width_of<Width>(), r, divider(steps)), 0, rows * C);
    else
      each(in, make(width_of<1>(), r, divider(steps)), 0, rows * C);
  }
}

}  // namespace troupe::kernels::cuda
