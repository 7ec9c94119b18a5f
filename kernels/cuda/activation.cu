#include "kernels/cuda/each.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

// The fast exponential and division are off by a few units in the last place, which is no more than
// the rounding of their arguments costs. The accurate versions would be slower than memory.

/// s = 1 / (1 + e^-x), and rest = 1 - s without cancellation. Stays finite below -88. For NaN the
/// result is some number; the factor x keeps the NaN.
__device__ __forceinline__ float sigmoid(float x, float& rest) {
  const float e = __expf(-fmaxf(x, -88.0f));
  const float s = __fdividef(1.0f, 1.0f + e);
  rest = e * s;
  return s;
}
__device__ __forceinline__ float sigmoid(float x) {
  float rest;
  return sigmoid(x, rest);
}

// tanh(u) = 2 sigmoid(2u) - 1 gives gelu_tanh = x sigmoid(2u): no cancellation, one division.
constexpr float twice_sqrt_2_over_pi = 1.59576912f;
constexpr float cubic = 0.044715f;

struct gelu_tanh {
  static __device__ __forceinline__ float value(float x) {
    return x * sigmoid(x * fmaf(x * x, cubic * twice_sqrt_2_over_pi, twice_sqrt_2_over_pi));
  }
  static __device__ __forceinline__ float slope(float x) {
    const float x2 = x * x;
    float rest;
    const float s = sigmoid(x * fmaf(x2, cubic * twice_sqrt_2_over_pi, twice_sqrt_2_over_pi), rest);
    const float inner = fmaf(x2, 3 * cubic * twice_sqrt_2_over_pi, twice_sqrt_2_over_pi);
    return fmaf(x * inner, s * rest, s);
  }
};

struct gelu_erf {
  /// The normal distribution function of x, and bell = e^(-x^2 / 2). Source: Abramowitz, Stegun,
  /// "Handbook of Mathematical Functions", 7.1.26, with the polynomial of
  /// kernels/cpu/vector-inl.hpp. Its relative error is below 5e-8. CUDA's erf takes twice as long.
  static __device__ __forceinline__ float below(float x, float& bell) {
    const float t = __fdividef(1.0f, fmaf(fabsf(x), 0.353553391f, 1.0f));
    bell = __expf(x * x * -0.5f);
    float p = -0.0294238519f;
    p = fmaf(p, t, 0.141745244f);
    p = fmaf(p, t, -0.242471324f);
    p = fmaf(p, t, 0.137734681f);
    p = fmaf(p, t, -0.0124118998f);
    p = fmaf(p, t, 0.100959208f);
    p = fmaf(p, t, 0.121649891f);
    p = fmaf(p, t, 0.141174036f);
    p = fmaf(p, t, 0.141043995f);
    const float tail = p * t * bell;
    return x > 0.0f ? 1.0f - tail : tail;
  }
  static __device__ __forceinline__ float value(float x) {
    float bell;
    return x * below(x, bell);
  }
  static __device__ __forceinline__ float slope(float x) {
    float bell;
    const float s = below(x, bell);
    return fmaf(x * bell, 0.398942280f, s);  // 1 / sqrt(2 pi)
  }
};

struct silu {
  static __device__ __forceinline__ float value(float x) { return x * sigmoid(x); }
  static __device__ __forceinline__ float slope(float x) {
    float rest;
    const float s = sigmoid(x, rest);
    return fmaf(x * s, rest, s);
  }
};

struct relu {
  // Not fmaxf, which would hide NaN.
  static __device__ __forceinline__ float value(float x) { return x <= 0.0f ? 0.0f : x; }
  static __device__ __forceinline__ float slope(float x) { return x > 0.0f ? 1.0f : value(x); }
};

struct squared_relu {
  static __device__ __forceinline__ float value(float x) { return relu::value(x) * relu::value(x); }
  static __device__ __forceinline__ float slope(float x) { return 2 * relu::value(x); }
};

struct tanh {
  static __device__ __forceinline__ float value(float x) { return tanhf(x); }
  /// 4 e / (1 + e)^2, where 1 - tanh(x)^2 would cancel.
  static __device__ __forceinline__ float slope(float x) {
    const float e = __expf(-2.0f * fabsf(x)), s = __fdividef(1.0f, 1.0f + e);
    return 4.0f * e * s * s;
  }
};

struct quick_gelu {
  static constexpr float steepness = 1.702f;
  static __device__ __forceinline__ float value(float x) { return x * sigmoid(steepness * x); }
  static __device__ __forceinline__ float slope(float x) {
    float rest;
    const float s = sigmoid(steepness * x, rest);
    return fmaf(steepness * x * s, rest, s);
  }
};

#define TROUPE_USE(name) \
  case activation::name: \
    return use(name());

/// Calls `use` with the activation's functions. All threads branch alike and wait for memory
/// anyway, so kernels need no instance for each activation.
template <class Use>
__device__ __forceinline__ void with_functions_of(activation kind, const Use& use) {
  switch (kind) { TROUPE_EVERY_ACTIVATION(TROUPE_USE) }
  __builtin_unreachable();
}

#undef TROUPE_USE

template <class T, int W>
struct pointwise_forward {
  static constexpr int width = W, steps = 4;
  using inputs = bundle<T, W>;
  T* y;
  const T* x;
  activation kind;

  __device__ __forceinline__ inputs load(std::int64_t i) const { return fetch<T, W>(x + i); }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
    with_functions_of(kind, [&](auto functions) {
#pragma unroll
      for (int k = 0; k < W; ++k)
        out[k] = decltype(functions)::value(in[k]);
    });
    put(y + i, out);
  }
};

template <class T, int W>
struct pointwise_backward {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> x, dy;
  };
  T* dx;
  const T* dy;
  const T* x;
  activation kind;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    return {fetch<T, W>(x + i), fetch<T, W>(dy + i)};
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
    with_functions_of(kind, [&](auto functions) {
#pragma unroll
      for (int k = 0; k < W; ++k)
        out[k] = in.dy[k] * decltype(functions)::slope(in.x[k]);
    });
    put(dx + i, out);
  }
};

// Output element i in row r = i / N: its gate is at i + r N, and its linear half N further.
template <class T, int W>
struct gated_forward {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> gate, linear;
  };
  T* y;
  const T* x;
  std::int64_t N;
  divider steps_of_row;
  activation kind;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    const T* const gate = x + i + steps_of_row.quotient(unsigned(i / W)) * N;
    return {fetch<T, W>(gate), fetch<T, W>(gate + N)};
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float out[W];
    with_functions_of(kind, [&](auto functions) {
#pragma unroll
      for (int k = 0; k < W; ++k)
        out[k] = decltype(functions)::value(in.gate[k]) * in.linear[k];
    });
    put(y + i, out);
  }
};

template <class T, int W>
struct gated_backward {
  static constexpr int width = W, steps = 2;
  struct inputs {
    bundle<T, W> gate, linear, dy;
  };
  T* dx;
  const T* dy;
  const T* x;
  std::int64_t N;
  divider steps_of_row;
  activation kind;

  __device__ __forceinline__ std::int64_t gate_at(std::int64_t i) const {
    return i + steps_of_row.quotient(unsigned(i / W)) * N;
  }
  __device__ __forceinline__ inputs load(std::int64_t i) const {
    const T* const gate = x + gate_at(i);
    return {fetch<T, W>(gate), fetch<T, W>(gate + N), fetch<T, W>(dy + i)};
  }
  __device__ __forceinline__ void store(std::int64_t i, const inputs& in) const {
    float of_gate[W], of_linear[W];
    with_functions_of(kind, [&](auto functions) {
      using function = decltype(functions);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float g = in.gate[k], up = in.dy[k];
        of_gate[k] = up * in.linear[k] * function::slope(g);
        of_linear[k] = up * function::value(g);
      }
    });
    T* const to = dx + gate_at(i);
    put(to, of_gate);
    put(to + N, of_linear);
  }
};

constexpr int weighted_threads = 128;

/// One block per row.
template <class T, int W>
__global__ void __launch_bounds__(weighted_threads)
    weighted_forward_kernel(const activation_forward<T> op) {
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const float weight = op.weight[r];
    const T* const x = op.x + r * op.N * (op.gated ? 2 : 1);
    for (std::int64_t n = std::int64_t{threadIdx.x} * W; n < op.N; n += weighted_threads * W) {
      const auto at = fetch<T, W>(x + n);
      float out[W];
      with_functions_of(op.kind, [&](auto functions) {
#pragma unroll
        for (int k = 0; k < W; ++k)
          out[k] = weight * decltype(functions)::value(at[k]);
      });
      if (op.gated) {
        const auto linear = fetch<T, W>(x + op.N + n);
#pragma unroll
        for (int k = 0; k < W; ++k)
          out[k] *= linear[k];
      }
      put(op.y + r * op.N + n, out);
    }
  }
}

/// One block per row. A thread reads its elements before it writes them, because dx may alias x.
template <class T, int W>
__global__ void __launch_bounds__(weighted_threads)
    weighted_backward_kernel(const activation_backward<T> op) {
  for (std::int64_t r = blockIdx.x; r < op.R; r += gridDim.x) {
    const float weight = op.weight[r];
    const std::int64_t row = r * op.N * (op.gated ? 2 : 1);
    float sum = 0;
    for (std::int64_t n = std::int64_t{threadIdx.x} * W; n < op.N; n += weighted_threads * W) {
      const auto at = fetch<T, W>(op.x + row + n), dy = fetch<T, W>(op.dy + r * op.N + n);
      float value[W], out[W];
      with_functions_of(op.kind, [&](auto functions) {
        using function = decltype(functions);
#pragma unroll
        for (int k = 0; k < W; ++k) {
          value[k] = function::value(at[k]);
          out[k] = function::slope(at[k]);
        }
      });
      if (op.gated) {
        const auto linear = fetch<T, W>(op.x + row + op.N + n);
        float of_linear[W];
#pragma unroll
        for (int k = 0; k < W; ++k) {
          const float up = weight * dy[k];
          sum = fmaf(dy[k] * value[k], linear[k], sum);
          of_linear[k] = up * value[k];
          out[k] *= up * linear[k];
        }
        put(op.dx + row + op.N + n, of_linear);
      } else {
#pragma unroll
        for (int k = 0; k < W; ++k) {
          sum = fmaf(dy[k], value[k], sum);
          out[k] *= weight * dy[k];
        }
      }
      put(op.dx + row + n, out);
    }
    sum = block_sum<weighted_threads>(sum);
    if (threadIdx.x == 0)
      op.dweight[r] = sum;
  }
}

template <class T>
void run_weighted(const activation_forward<T>& op, bool vectors, const context& in) {
  const auto kernel
      = vectors ? &weighted_forward_kernel<T, wide<T>> : &weighted_forward_kernel<T, 1>;
  launch(in, blocks_for(op.R, 16 * processors), weighted_threads, kernel, op);
}
template <class T>
void run_weighted(const activation_backward<T>& op, bool vectors, const context& in) {
  const auto kernel
      = vectors ? &weighted_backward_kernel<T, wide<T>> : &weighted_backward_kernel<T, 1>;
  launch(in, blocks_for(op.R, 16 * processors), weighted_threads, kernel, op);
}

template <class T>
void run_op(const activation_forward<T>& op, const context& in) {
  const bool aligned = all_aligned(op.y, op.x), vectors = aligned && op.N % wide<T> == 0;
  if (op.weight)
    return run_weighted(op, vectors, in);
  if (!op.gated)
    return each_flat<wide<T>>(in, op.R * op.N, aligned, [&](auto width) {
      return pointwise_forward<T, width()>{op.y, op.x, op.kind};
    });
  each_in_rows<
      wide<T>>(in, op.R, op.N, vectors, [&](auto width, std::int64_t r, const divider& steps) {
    return gated_forward<T, width()>{op.y + r * op.N, op.x + 2 * r * op.N, op.N, steps, op.kind};
  });
}

template <class T>
void run_op(const activation_backward<T>& op, const context& in) {
  const bool aligned = all_aligned(op.dx, op.dy, op.x), vectors = aligned && op.N % wide<T> == 0;
  if (op.weight)
    return run_weighted(op, vectors, in);
  if (!op.gated)
    return each_flat<wide<T>>(in, op.R * op.N, aligned, [&](auto width) {
      return pointwise_backward<T, width()>{op.dx, op.dy, op.x, op.kind};
    });
  each_in_rows<wide<T>>(
      in, op.R, op.N, vectors, [&](auto width, std::int64_t r, const divider& steps) {
        const std::int64_t at = 2 * r * op.N;
        return gated_backward<T, width()>{
            op.dx + at, op.dy + r * op.N, op.x + at, op.N, steps, op.kind};
      });
}

}  // namespace

#define TROUPE_INSTANTIATE(T)                                     \
  template <>                                                     \
  void run(const activation_forward<T>& op, const context& in) {  \
    run_op(op, in);                                               \
  }                                                               \
  template <>                                                     \
  void run(const activation_backward<T>& op, const context& in) { \
    run_op(op, in);                                               \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
