#include "kernels/cuda/each_grain.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

template <int W>
struct momentum_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    pack<float, W> x, m, dx;
  };
  momentum_step<float> op;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    return {cuda::load<float, W>(op.x + i),
            cuda::load<float, W>(op.m + i),
            cuda::load<float, W>(op.dx + i)};
  }
  __device__ __forceinline__ written_packs<2, W> store(std::int64_t i, const inputs& in) const {
    written_packs<2, W> out;
    auto &x = out.of[0], &m = out.of[1];
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float g = in.dx.x[k] * op.gradient_scale, x0 = in.x.x[k], m0 = in.m.x[k];
      if (op.rule == momentum_rule::sgd) {
        m.x[k] = fmaf(op.beta1, m0, fmaf(op.weight_decay, x0, g));
        x.x[k] = fmaf(-op.rate, m.x[k], x0);
      } else {
        const float c = fmaf(op.beta1, m0, (1 - op.beta1) * g);
        const float sign = c > 0 ? 1.0f : c < 0 ? -1.0f : 0.0f;
        m.x[k] = fmaf(op.beta2, m0, (1 - op.beta2) * g);
        x.x[k] = fmaf(-op.rate, fmaf(op.weight_decay, x0, sign), x0);
      }
    }
    store_global(op.x + i, x);
    store_global(op.m + i, m);
    if (op.rounded && op.rounded_to == narrow_type::f16)
      round_to<f16>(i, x);
    else if (op.rounded)
      round_to<bf16>(i, x);
    return out;
  }
  template <class T>
  __device__ __forceinline__ void round_to(std::int64_t i, const pack<float, W>& x) const {
    pack<T, W> rounded;
#pragma unroll
    for (int k = 0; k < W; ++k)
      rounded.x[k] = from_float<T>(x.x[k]);
    store_global(static_cast<T*>(op.rounded) + i, rounded);
  }
};

template <int W>
struct scaled_sum_body {
  static constexpr int width = W, steps = 2;
  struct inputs {
    pack<float, W> x, z;
  };
  scaled_sum<float> op;

  __device__ __forceinline__ inputs load(std::int64_t i) const {
    inputs out;
    out.x = cuda::load<float, W>(op.x + i);
    if (op.z)
      out.z = cuda::load<float, W>(op.z + i);
    return out;
  }
  __device__ __forceinline__ written_packs<1, W> store(std::int64_t i, const inputs& in) const {
    double square = 0;
    for (std::int64_t k = 0; k < op.count; ++k)
      square += op.squares[k];
    const double norm = sqrt(square), least = op.eps;
    const float a = op.squares ? float(double(op.a) / (norm > least ? norm : least)) : op.a;
    written_packs<1, W> out;
    auto& y = out.of[0];
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float scaled = a * in.x.x[k];
      y.x[k] = op.z ? fmaf(op.b, in.z.x[k], scaled) : scaled;
    }
    store_global(op.y + i, y);
    return out;
  }
};

/// Runs the bodies of an operation, with fingerprints of `Arrays` arrays if requested.
template <int Arrays, template <int> class Body, class Op>
void run_bodies(const Op& op, bool vectors, const context& in) {
  const auto make = [&](auto width) { return Body<width()>{op}; };
  if (op.fingerprints.results)
    each_grain<Arrays, 4>(in, op.n, vectors, op.fingerprints, make);
  else
    each_flat<4>(in, op.n, vectors, make);
}

template <class Op>
std::size_t scratch_of(const Op& op, std::int64_t arrays) {
  return op.fingerprints.results
             ? bytes_of_grain_sums(arrays * grains_in(op.n, op.fingerprints.grain))
             : 0;
}

}  // namespace

std::size_t scratch(const momentum_step<float>& op) {
  return scratch_of(op, 2);
}
std::size_t scratch(const scaled_sum<float>& op) {
  return scratch_of(op, 1);
}

template <>
void run(const momentum_step<float>& op, const context& in) {
  run_bodies<2, momentum_body>(op, all_aligned(op.x, op.m, op.dx, op.rounded), in);
}

template <>
void run(const scaled_sum<float>& op, const context& in) {
  run_bodies<1, scaled_sum_body>(op, all_aligned(op.y, op.x, op.z), in);
}

}  // namespace troupe::kernels::cuda
