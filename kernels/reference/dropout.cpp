#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

namespace {

/// The dropout factor m of element (r, c).
template <class Op>
double mask(const Op& op, std::int64_t r, std::int64_t c) {
  if (op.p == 0)
    return double(op.scale);  // sample may be null
  const std::int64_t q = op.first_row + r;
  const auto index = std::uint64_t((q % op.T_) * op.C + c);
  const bool dropped = philox_word(op.key, op.sample[q / op.T_], index) < drop_threshold(op.p);
  return dropped ? 0 : double(op.scale) / (1 - double(op.p));
}

}  // namespace

template <class T>
void run(const dropout_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t c = 0; c < op.C; ++c) {
      const std::int64_t i = r * op.C + c;
      const double x = double(op.x[i]) + (op.bias ? double(op.bias[c]) : 0);
      op.y[i] = T((op.residual ? double(op.residual[i]) : 0) + x * mask(op, r, c));
    }
  }
}

template <class T>
void run(const dropout_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t c = 0; c < op.C; ++c)
      op.dx[r * op.C + c] = T(double(op.dy[r * op.C + c]) * mask(op, r, c));
  }
}

template void run(const dropout_forward<float>&);
template void run(const dropout_forward<double>&);
template void run(const dropout_forward<bf16>&);
template void run(const dropout_forward<f16>&);
template void run(const dropout_backward<float>&);
template void run(const dropout_backward<double>&);
template void run(const dropout_backward<bf16>&);
template void run(const dropout_backward<f16>&);

}  // namespace troupe::kernels::reference
