#include "kernels/reference/reference.hpp"

#include <cmath>

namespace troupe::kernels::reference {

template <class T>
void run(const norm_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.C;
    T* y = op.y + r * op.C;
    if (op.residual) {
      for (std::int64_t c = 0; c < op.C; ++c)
        op.sum[r * op.C + c] = T(double(x[c]) + double(op.residual[r * op.C + c]));
      x = op.sum + r * op.C;
    }

    double mean = 0;
    if (op.kind == normalization::layer) {
      for (std::int64_t c = 0; c < op.C; ++c)
        mean += double(x[c]);
      mean /= double(op.C);
    }
    double squares = 0;
    for (std::int64_t c = 0; c < op.C; ++c)
      squares += (double(x[c]) - mean) * (double(x[c]) - mean);
    const double rstd = 1 / std::sqrt(squares / double(op.C) + double(op.eps));

    for (std::int64_t c = 0; c < op.C; ++c)
      y[c] = T((double(x[c]) - mean) * rstd * (double(op.gain[c]) + double(op.gain_offset))
               + (op.bias ? double(op.bias[c]) : 0));
    if (op.mean)
      op.mean[r] = float(mean);
    if (op.rstd)
      op.rstd[r] = float(rstd);
  }
}

template <class T>
void run(const norm_backward_input<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.C;
    const T* dy = op.dy + r * op.C;
    const bool layer = op.kind == normalization::layer;
    const double mean = layer ? op.mean[r] : 0, rstd = op.rstd[r];

    double h_mean = 0, h_xh_mean = 0;
    for (std::int64_t c = 0; c < op.C; ++c) {
      const double h = double(dy[c]) * (double(op.gain[c]) + double(op.gain_offset));
      h_mean += h / double(op.C);
      h_xh_mean += h * (double(x[c]) - mean) * rstd / double(op.C);
    }
    if (!layer)
      h_mean = 0;

    for (std::int64_t c = 0; c < op.C; ++c) {
      const double h = double(dy[c]) * (double(op.gain[c]) + double(op.gain_offset));
      const double xh = (double(x[c]) - mean) * rstd;
      const double skip = op.residual ? double(op.residual[r * op.C + c]) : 0;
      op.dx[r * op.C + c] = T(rstd * (h - h_mean - xh * h_xh_mean) + skip);
    }
  }
}

template <class T>
void run(const norm_backward_weight<T>& op) {
  const bool layer = op.kind == normalization::layer;
  for (std::int64_t c = 0; c < op.C; ++c) {
    double dgain = op.gain_accumulates ? double(op.dgain[c]) : 0;
    double dbias = op.dbias && op.bias_accumulates ? double(op.dbias[c]) : 0;
    for (std::int64_t r = 0; r < op.R; ++r) {
      const auto dy = double(op.dy[r * op.C + c]);
      const double mean = layer ? op.mean[r] : 0;
      dgain += dy * (double(op.x[r * op.C + c]) - mean) * double(op.rstd[r]);
      dbias += dy;
    }
    op.dgain[c] = accumulator<T>(dgain);
    if (op.dbias)
      op.dbias[c] = accumulator<T>(dbias);
  }
}

template void run(const norm_forward<float>&);
template void run(const norm_forward<double>&);
template void run(const norm_forward<bf16>&);
template void run(const norm_forward<f16>&);
template void run(const norm_backward_input<float>&);
template void run(const norm_backward_input<double>&);
template void run(const norm_backward_input<bf16>&);
template void run(const norm_backward_input<f16>&);
template void run(const norm_backward_weight<float>&);
template void run(const norm_backward_weight<double>&);
template void run(const norm_backward_weight<bf16>&);
template void run(const norm_backward_weight<f16>&);

}  // namespace troupe::kernels::reference
