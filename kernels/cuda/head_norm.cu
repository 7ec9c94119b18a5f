#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

/// Heads in a fused product, in the order of (R, G, heads). Fewer than 2^31.
struct heads_in_groups {
  divider heads, groups;
  std::int64_t row, group, D;

  explicit heads_in_groups(const head_norm_shape& s)
      : heads(s.heads), groups(s.G), row(s.row), group(s.group), D(s.D) {}

  __device__ __forceinline__ std::int64_t operator()(std::int64_t number) const {
    const auto n = unsigned(number);
    const unsigned g = heads.quotient(n), r = groups.quotient(g);
    return r * row + (g - r * groups.by()) * group + (n - g * heads.by()) * D;
  }
};

std::int64_t heads_of(const head_norm_shape& s) {
  const std::int64_t all = s.R * s.G * s.heads;
  if (all >> 31 != 0)
    throw std::logic_error("head_norm of " + std::to_string(all)
                           + " heads: a device takes fewer than 2^31 at once");
  return all;
}

/// Whether packs of W may be loaded from every head.
bool heads_fit(const head_norm_shape& s, int W) {
  return s.D % W == 0 && s.row % W == 0 && s.group % W == 0;
}

template <class T>
void run_op(const head_norm_forward<T>& op, const context& in) {
  const head_norm_shape& s = op.shape;
  const auto all = heads_of(s);
  if (all == 0)
    return;
  const norm_rows_forward<T, heads_in_groups> rows{.y = op.y,
                                                   .mean = op.mean,
                                                   .rstd = op.rstd,
                                                   .x = op.x,
                                                   .gain = op.gain,
                                                   .bias = op.bias,
                                                   .R = all,
                                                   .C = s.D,
                                                   .eps = s.eps,
                                                   .gain_offset = s.gain_offset,
                                                   .centred = s.kind == normalization::layer,
                                                   .place = heads_in_groups(s)};
  run_rows<false>(in, rows, heads_fit(s, wide<T>) && all_aligned(op.y, op.x, op.gain, op.bias));
}

template <class T>
void run_op(const head_norm_backward_input<T>& op, const context& in) {
  const head_norm_shape& s = op.shape;
  const auto all = heads_of(s);
  if (all == 0)
    return;
  const norm_rows_backward<T, heads_in_groups> rows{.dx = op.dx,
                                                    .dy = op.dy,
                                                    .x = op.x,
                                                    .gain = op.gain,
                                                    .mean = op.mean,
                                                    .rstd = op.rstd,
                                                    .residual = nullptr,
                                                    .R = all,
                                                    .C = s.D,
                                                    .gain_offset = s.gain_offset,
                                                    .centred = s.kind == normalization::layer,
                                                    .place = heads_in_groups(s)};
  run_rows<false>(in, rows, heads_fit(s, wide<T>) && all_aligned(op.dx, op.dy, op.x, op.gain));
}

template <class T, int W, int Sums>
struct head_weight_sums {
  static constexpr int width = W, sums = Sums, unroll = 2;
  struct inputs {
    bundle<T, W> dy, x;
    float mean, rstd;
  };
  const T* dy;
  const T* x;
  const float* mean;  ///< null for rms
  const float* rstd;
  heads_in_groups place;

  __device__ __forceinline__ inputs load(std::int64_t n, std::int64_t d) const {
    const std::int64_t at = place(n) + d;
    return {fetch<T, W>(dy + at), fetch<T, W>(x + at), mean ? mean[n] : 0.0f, rstd[n]};
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
void sum_weights(const head_norm_backward_weight<T>& op, const context& in) {
  const head_weight_sums<T, W, Sums> body{
      .dy = op.dy,
      .x = op.x,
      .mean = op.shape.kind == normalization::layer ? op.mean : nullptr,
      .rstd = op.rstd,
      .place = heads_in_groups(op.shape)};
  add_columns(in, body, heads_of(op.shape), op.shape.D, op.dgain, op.dbias, scratch(op));
}

template <class T>
void run_op(const head_norm_backward_weight<T>& op, const context& in) {
  if (heads_of(op.shape) == 0)
    return;
  constexpr int W = wide<T>;
  const bool vectors = heads_fit(op.shape, W) && all_aligned(op.dy, op.x);
  if (op.dbias)
    vectors ? sum_weights<W, 2>(op, in) : sum_weights<1, 2>(op, in);
  else
    vectors ? sum_weights<W, 1>(op, in) : sum_weights<1, 1>(op, in);
}

}  // namespace

template <class T>
std::size_t scratch(const head_norm_backward_weight<T>& op) {
  const head_norm_shape& s = op.shape;
  return row_blocks(s.R * s.G * s.heads, s.D).scratch(s.D, op.dbias ? 2 : 1);
}

#define TROUPE_INSTANTIATE(T)                                           \
  template std::size_t scratch(const head_norm_backward_weight<T>&);    \
  template <>                                                           \
  void run(const head_norm_forward<T>& op, const context& in) {         \
    run_op(op, in);                                                     \
  }                                                                     \
  template <>                                                           \
  void run(const head_norm_backward_input<T>& op, const context& in) {  \
    run_op(op, in);                                                     \
  }                                                                     \
  template <>                                                           \
  void run(const head_norm_backward_weight<T>& op, const context& in) { \
    run_op(op, in);                                                     \
  }
TROUPE_INSTANTIATE(float)
TROUPE_INSTANTIATE(bf16)
TROUPE_INSTANTIATE(f16)
#undef TROUPE_INSTANTIATE

}  // namespace troupe::kernels::cuda
