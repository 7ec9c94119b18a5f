// The gradient of a row's loss, computed by one block.

#pragma once

#include "kernels/cuda/cross_entropy.cuh"

namespace troupe::kernels::cuda::cross_entropy {

/// Gradient with respect to a logit; the target is separate.
struct row_slope {
  float lse, dloss;

  __device__ __forceinline__ float of(float x) const { return exponential(x, lse) * dloss; }
  /// p - 1 by expm1: exact where p is near 1.
  __device__ __forceinline__ float of_target(float x) const { return expm1f(x - lse) * dloss; }
};

/// A row of logits and its gradient, in vectors of W columns. Both may share memory: a thread
/// writes only what it has read.
template <class T, int W>
class row_gradient {
 public:
  /// `target`: column of the target; may be outside.
  __device__ __forceinline__ row_gradient(const T* logits,
                                          T* dlogits,
                                          std::int64_t V,
                                          std::int64_t vocabulary,
                                          std::int64_t target,
                                          const row_slope& slope)
      : from_(logits),
        to_(dlogits),
        slope_(slope),
        V_(int(V)),
        // Masked rows may contain infinities: their gradient is set to 0 and nothing is read.
        seen_(slope.dloss == 0 ? 0 : int(vocabulary)),
        target_(target >= 0 && target < seen_ ? int(target) : -W),
        before_(W == 1 ? 0 : before_vectors(logits, V_)),
        vectors_((V_ - before_) / W) {}

  /// Writes one of `parts` parts. A part has at most `Ahead` vectors per thread.
  template <int Threads, int Ahead>
  __device__ __forceinline__ void write(int part, int parts) const {
    const int me = int(threadIdx.x), first = part * Ahead * Threads + me;
    pack<T, W> x[Ahead] = {};
    float at_target = 0;
    bool has_target = false;
#pragma unroll
    for (int u = 0; u < Ahead; ++u) {
      const int i = first + u * Threads, column = before_ + i * W;
      if (i < vectors_ && column < seen_) {
        x[u] = load<T, W>(from_ + column);
        if (unsigned(target_ - column) < unsigned(W)) {
          at_target = to_float(from_[target_]);
          has_target = true;
        }
      }
    }
#pragma unroll
    for (int u = 0; u < Ahead; ++u) {
      const int i = first + u * Threads, column = before_ + i * W;
      if (i >= vectors_)
        break;
      pack<T, W> y = {};
      if (column + W <= seen_) {  // almost always: no test per element
#pragma unroll
        for (int w = 0; w < W; ++w)
          y.x[w] = from_float<T>(slope_.of(to_float(x[u].x[w])));
      } else {
#pragma unroll
        for (int w = 0; w < W; ++w)
          if (column + w < seen_)
            y.x[w] = from_float<T>(slope_.of(to_float(x[u].x[w])));
      }
      store(to_ + column, y);
    }
    if (has_target)
      to_[target_] = from_float<T>(slope_.of_target(at_target));

    const int after = before_ + vectors_ * W;
    if (part == 0 && me < before_)
      write_one(me);
    if (part == parts - 1 && me < V_ - after)
      write_one(after + me);
  }

 private:
  __device__ __forceinline__ void write_one(int column) const {
    const float x = to_float(from_[column]);
    const float here = column == target_ ? slope_.of_target(x) : slope_.of(x);
    to_[column] = column < seen_ ? from_float<T>(here) : T{};
  }

  const T* from_;
  T* to_;
  row_slope slope_;
  int V_;
  int seen_;    ///< columns with a gradient
  int target_;  ///< if there is none, far from every column
  int before_, vectors_;
};

template <int W, int Threads, int Ahead>
constexpr std::int64_t gradient_parts(std::int64_t V) {
  const std::int64_t parts = ceil_div(V, W * Ahead * Threads);
  return parts < 1 ? 1 : parts;
}

}  // namespace troupe::kernels::cuda::cross_entropy
