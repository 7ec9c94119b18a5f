#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

struct whole_rows {
  std::int64_t C;

  __device__ __forceinline__ std::int64_t operator()(std::int64_t r) const { return r * C; }
};

template <class T>
void run_op(const norm_forward<T>& op, const context& in) {
  const norm_rows_forward<T, whole_rows> rows{.y = op.y,
                                              .mean = op.mean,
                                              .rstd = op.rstd,
                                              .x = op.x,
                                              .gain = op.gain,
                                              .bias = op.bias,
                                              .R = op.R,
                                              .C = op.C,
                                              .eps = op.eps,
                                              .gain_offset = op.gain_offset,
                                              .centred = op.kind == normalization::layer,
                                              .place = {op.C}};
  run_rows<true>(in, rows, op.C % wide<T> == 0 && all_aligned(op.y, op.x, op.gain, op.bias));
}

template <class T>
void run_op(const norm_backward_input<T>& op, const context& in) {
  const norm_rows_backward<T, whole_rows> rows{.dx = op.dx,
                                               .dy = op.dy,
                                               .x = op.x,
                                               .gain = op.gain,
                                               .mean = op.mean,
                                               .rstd = op.rstd,
                                               .residual = op.residual,
                                               .R = op.R,
                                               .C = op.C,
                                               .gain_offset = op.gain_offset,
                                               .centred = op.kind == normalization::layer,
                                               .place = {op.C}};
  run_rows<true>(
      in, rows, op.C % wide<T> == 0 && all_aligned(op.dx, op.dy, op.x, op.gain, op.residual));
}

template <class T, int W, int Sums>
struct weight_sums {
  static constexpr int width = W, sums = Sums, unroll = 2;
  struct inputs {
    bundle<T, W> dy, x;
    float mean, rstd;
  };
  const T* dy;
  const T* x;
  const float* mean;  ///< null for rms
  const float* rstd;
  std::int64_t C;

  __device__ __forceinline__ inputs load(std::int64_t r, std::int64_t c) const {
    return {
        fetch<T, W>(dy + r * C + c), fetch<T, W>(x + r * C + c), mean ? mean[r] : 0.0f, rstd[r]};
  }
  __device__ __forceinline__ void add(const inputs& in, float (&to)[Sums][W]) const {
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float up = in.dy[k];
      to[0][k] = fmaf(up, (in.x[k] - in.mean) * in.rstd, to[0][k]);
      if constexpr (Sums == 2)
        to[1][k] += up;
    }
  }
};

template <int W, int Sums, class T>
void sum_weights(const norm_backward_weight<T>& op, const context& in) {
  const weight_sums<T, W, Sums> body{.dy = op.dy,
                                     .x = op.x,
                                     .mean = op.kind == normalization::layer ? op.mean : nullptr,
                                     .rstd = op.rstd,
                                     .C = op.C};
  add_columns(in, body, op.R, op.C, op.dgain, op.dbias, scratch(op));
}

template <class T>
void run_op(const norm_backward_weight<T>& op, const context& in) {
  constexpr int W = wide<T>;
  const bool vectors = op.C % W == 0 && all_aligned(op.dy, op.x);
  if (op.dbias)
    vectors ? sum_weights<W, 2>(op, in) : sum_weights<1, 2>(op, in);
  else
    vectors ? sum_weights<W, 1>(op, in) : sum_weights<1, 1>(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const norm_backward_weight<T>& op) {
  return row_blocks(op.R, op.C).scratch(op.C, op.dbias ? 2 : 1);
}

#define TROUPE_INSTANTIATE(T)                                      \
  template std::size_t scratch(const norm_backward_weight<T>&);    \
  template <>                                                      \
  void run(const norm_forward<T>& op, const context& in) {         \
    run_op(op, in);                                                \
  }                                                                \
  template <>                                                      \
  void run(const norm_backward_input<T>& op, const context& in) {  \
    run_op(op, in);                                                \
  }                                                                \
  template <>                                                      \
  void run(const norm_backward_weight<T>& op, const context& in) { \
    run_op(op, in);                                                \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
