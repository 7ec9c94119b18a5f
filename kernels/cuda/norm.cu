#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/run.hpp"

namespace troupe::kernels::cuda {

namespace {

struct whole_rows {
  std::int64_t C;

  __device__ __forceinline__ std::int64_t operator()(std::int64_t r) const { return r * C; }
};

template <bool Sums, class T>
void run_forward(const norm_forward<T>& op, const context& in) {
  const norm_rows_forward<T, whole_rows, Sums> rows{.y = op.y,
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
                                                    .place = {op.C},
                                                    .residual = op.residual,
                                                    .sum = op.sum};
  const bool aligned = all_aligned(op.y, op.x, op.gain, op.bias, op.residual, op.sum);
  run_rows<true>(in, rows, op.C % wide<T> == 0 && aligned);
}

template <class T>
void run_op(const norm_forward<T>& op, const context& in) {
  op.residual ? run_forward<true>(op, in) : run_forward<false>(op, in);
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

template <class T>
row_blocks blocks_of(const norm_backward_weight<T>& op) {
  return {op.R, op.C, wide<T>};
}

template <class T>
void run_op(const norm_backward_weight<T>& op, const context& in) {
  const bool vectors = op.C % wide<T> == 0 && all_aligned(op.dy, op.x);
  sum_norm_weights<T>(in,
                      op,
                      whole_rows{op.C},
                      op.R,
                      op.C,
                      op.kind == normalization::layer,
                      vectors,
                      blocks_of(op));
}

}  // namespace

template <class T>
std::size_t scratch(const norm_backward_weight<T>& op) {
  return blocks_of(op).scratch(op.C, op.dbias ? 2 : 1);
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
