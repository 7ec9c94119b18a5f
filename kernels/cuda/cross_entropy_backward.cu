#include "kernels/cuda/cross_entropy.cuh"
#include "kernels/cuda/run.hpp"

#include <algorithm>

namespace troupe::kernels::cuda {

namespace {

using namespace cross_entropy;

constexpr int backward_threads = 256;

/// The gradient of a row's loss, once its target is apart.
struct row_slope {
  float lse, dloss;

  __device__ __forceinline__ float of(float x) const { return exponential(x, lse) * dloss; }
  /// p - 1 from expm1: it is small where p is near 1.
  __device__ __forceinline__ float of_target(float x) const { return expm1f(x - lse) * dloss; }
};

/// One block for `ahead` vectors of W columns for each thread. A thread writes what it has read,
/// for both arrays may be one.
template <class T, int W>
__global__ void __launch_bounds__(backward_threads)
    backward_row_parts(const cross_entropy_backward<T> op, int row_parts) {
  const int me = int(threadIdx.x), V = int(op.V), vocabulary = int(op.vocabulary);
  for (std::int64_t item = blockIdx.x; item < op.R * row_parts; item += gridDim.x) {
    const std::int64_t r = item / row_parts;
    const int part = int(item % row_parts);
    const T* from = op.logits + r * op.V;
    T* to = op.dlogits + r * op.V;
    const int before = W == 1 ? 0 : before_vectors(from, V);
    const int vectors = (V - before) / W, after = before + vectors * W;
    const row_slope slope{op.lse[r], op.dloss[r]};
    // A masked row may hold infinities: 0 is said, not computed, and nothing read.
    const int seen = slope.dloss == 0 ? 0 : vocabulary;
    const std::int64_t wanted = std::int64_t{op.target[r]} - op.first;
    const int target = wanted >= 0 && wanted < seen ? int(wanted) : -W;

    pack<T, W> x[ahead] = {};
    float at_target = 0;
    bool has_target = false;
    const int first = part * ahead * backward_threads + me;
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      const int i = first + u * backward_threads, column = before + i * W;
      if (i < vectors && column < seen) {
        x[u] = load<T, W>(from + column);
        if (unsigned(target - column) < unsigned(W)) {
          at_target = to_float(from[target]);
          has_target = true;
        }
      }
    }
#pragma unroll
    for (int u = 0; u < ahead; ++u) {
      const int i = first + u * backward_threads, column = before + i * W;
      if (i >= vectors)
        break;
      pack<T, W> y = {};
      if (column + W <= seen) {  // nearly always: no test for each
#pragma unroll
        for (int w = 0; w < W; ++w)
          y.x[w] = from_float<T>(slope.of(to_float(x[u].x[w])));
      } else {
#pragma unroll
        for (int w = 0; w < W; ++w)
          if (column + w < seen)
            y.x[w] = from_float<T>(slope.of(to_float(x[u].x[w])));
      }
      store(to + column, y);
    }
    if (has_target)
      to[target] = from_float<T>(slope.of_target(at_target));

    const auto one = [&](int column) {
      const float here = to_float(from[column]);
      const float slope_here = column == target ? slope.of_target(here) : slope.of(here);
      to[column] = column < seen ? from_float<T>(slope_here) : T{};
    };
    if (part == 0 && me < before)
      one(me);
    if (part == row_parts - 1 && me < V - after)
      one(after + me);
  }
}

template <class T, int W>
void backward(const cross_entropy_backward<T>& op, const context& in) {
  const std::int64_t parts
      = std::max<std::int64_t>(1, ceil_div(op.V, W * ahead * backward_threads));
  launch(in,
         dim3(blocks_for(op.R * parts, most_blocks)),
         dim3(backward_threads),
         backward_row_parts<T, W>,
         op,
         parts);
}

template <class T>
void compute(const cross_entropy_backward<T>& op, const context& in) {
  const auto distance
      = reinterpret_cast<std::uintptr_t>(op.logits) - reinterpret_cast<std::uintptr_t>(op.dlogits);
  if (op.V == 0)
    return;
  if (distance % 16 == 0)
    backward<T, wide<T>>(op, in);
  else
    backward<T, 1>(op, in);
}

}  // namespace

#define TROUPE_DEFINE(T)                                             \
  template <>                                                        \
  void run(const cross_entropy_backward<T>& op, const context& in) { \
    compute(op, in);                                                 \
  }
TROUPE_DEFINE(float)
TROUPE_DEFINE(bf16)
TROUPE_DEFINE(f16)
#undef TROUPE_DEFINE

}  // namespace troupe::kernels::cuda
