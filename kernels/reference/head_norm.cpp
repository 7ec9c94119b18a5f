#include "kernels/reference/reference.hpp"

#include <cmath>

namespace troupe::kernels::reference {

namespace {

/// Calls visit(head index, offset of its first element) in (R, G, heads) order.
template <class Visit>
void each_head(const head_norm_shape& s, const Visit& visit) {
  std::int64_t n = 0;
  for (std::int64_t r = 0; r < s.R; ++r) {
    for (std::int64_t g = 0; g < s.G; ++g) {
      for (std::int64_t h = 0; h < s.heads; ++h)
        visit(n++, r * s.row + g * s.group + h * s.D);
    }
  }
}

}  // namespace

template <class T>
void run(const head_norm_forward<T>& op) {
  const head_norm_shape& s = op.shape;
  each_head(s, [&](std::int64_t n, std::int64_t at) {
    const T* x = op.x + at;
    double mean = 0;
    if (s.kind == normalization::layer) {
      for (std::int64_t d = 0; d < s.D; ++d)
        mean += double(x[d]);
      mean /= double(s.D);
    }
    double squares = 0;
    for (std::int64_t d = 0; d < s.D; ++d)
      squares += (double(x[d]) - mean) * (double(x[d]) - mean);
    const double rstd = 1 / std::sqrt(squares / double(s.D) + double(s.eps));

    for (std::int64_t d = 0; d < s.D; ++d) {
      const double gain = double(op.gain[d]) + double(s.gain_offset);
      op.y[at + d] = T((double(x[d]) - mean) * rstd * gain + (op.bias ? double(op.bias[d]) : 0));
    }
    if (op.mean)
      op.mean[n] = float(mean);
    if (op.rstd)
      op.rstd[n] = float(rstd);
  });
}

template <class T>
void run(const head_norm_backward_input<T>& op) {
  const head_norm_shape& s = op.shape;
  const bool layer = s.kind == normalization::layer;
  each_head(s, [&](std::int64_t n, std::int64_t at) {
    const double mean = layer ? op.mean[n] : 0, rstd = op.rstd[n];
    const auto h = [&](std::int64_t d) {
      return double(op.dy[at + d]) * (double(op.gain[d]) + double(s.gain_offset));
    };
    const auto xh = [&](std::int64_t d) { return (double(op.x[at + d]) - mean) * rstd; };
    double h_mean = 0, h_xh_mean = 0;
    for (std::int64_t d = 0; d < s.D; ++d) {
      h_mean += layer ? h(d) / double(s.D) : 0;
      h_xh_mean += h(d) * xh(d) / double(s.D);
    }
    for (std::int64_t d = 0; d < s.D; ++d)
      op.dx[at + d] = T(rstd * (h(d) - h_mean - xh(d) * h_xh_mean));
  });
}

template <class T>
void run(const head_norm_backward_weight<T>& op) {
  const head_norm_shape& s = op.shape;
  const bool layer = s.kind == normalization::layer;
  for (std::int64_t d = 0; d < s.D; ++d) {
    double dgain = op.gain_accumulates ? double(op.dgain[d]) : 0;
    double dbias = op.dbias && op.bias_accumulates ? double(op.dbias[d]) : 0;
    each_head(s, [&](std::int64_t n, std::int64_t at) {
      const auto dy = double(op.dy[at + d]);
      const double mean = layer ? op.mean[n] : 0;
      dgain += dy * (double(op.x[at + d]) - mean) * double(op.rstd[n]);
      dbias += dy;
    });
    op.dgain[d] = accumulator<T>(dgain);
    if (op.dbias)
      op.dbias[d] = accumulator<T>(dbias);
  }
}

template void run(const head_norm_forward<float>&);
template void run(const head_norm_forward<double>&);
template void run(const head_norm_forward<bf16>&);
template void run(const head_norm_forward<f16>&);
template void run(const head_norm_backward_input<float>&);
template void run(const head_norm_backward_input<double>&);
template void run(const head_norm_backward_input<bf16>&);
template void run(const head_norm_backward_input<f16>&);
template void run(const head_norm_backward_weight<float>&);
template void run(const head_norm_backward_weight<double>&);
template void run(const head_norm_backward_weight<bf16>&);
template void run(const head_norm_backward_weight<f16>&);

}  // namespace troupe::kernels::reference
