#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

/// Heads of a fused product, numbered as (R, G, heads); fewer than 2^31.
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

/// Whether packs of W elements can be loaded from every head.
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

template <class T>
row_blocks blocks_of(const head_norm_backward_weight<T>& op) {
  return {heads_of(op.shape), op.shape.D, wide<T>};
}

template <class T>
void run_op(const head_norm_backward_weight<T>& op, const context& in) {
  const head_norm_shape& s = op.shape;
  const auto all = heads_of(s);
  const bool vectors = heads_fit(s, wide<T>) && all_aligned(op.dy, op.x);
  sum_norm_weights<T>(
      in, op, heads_in_groups(s), all, s.D, s.kind == normalization::layer, vectors, blocks_of(op));
}

}  // namespace

template <class T>
std::size_t scratch(const head_norm_backward_weight<T>& op) {
  return blocks_of(op).scratch(op.shape.D, op.dbias ? 2 : 1);
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
