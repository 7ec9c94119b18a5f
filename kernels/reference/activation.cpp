#include "kernels/reference/reference.hpp"
#include "kernels/reference/scalar.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const activation_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.gated);
    const double weight = op.weight ? double(op.weight[r]) : 1;
    for (std::int64_t n = 0; n < op.N; ++n) {
      const double value = weight * activated(op.kind, double(x[n]));
      op.y[r * op.N + n] = T(op.gated ? value * double(x[op.N + n]) : value);
    }
  }
}

template <class T>
void run(const activation_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.gated);
    T* dx = op.dx + r * op.N * fan_in(op.gated);
    const double weight = op.weight ? double(op.weight[r]) : 1;
    double dweight = 0;
    for (std::int64_t n = 0; n < op.N; ++n) {
      // Reads everything before writing, because dx may alias x or dy.
      const double at = double(x[n]), linear = op.gated ? double(x[op.N + n]) : 1;
      const double dy = double(op.dy[r * op.N + n]), value = activated(op.kind, at);
      dweight += dy * value * linear;
      dx[n] = T(weight * dy * linear * activation_slope(op.kind, at));
      if (op.gated)
        dx[op.N + n] = T(weight * dy * value);
    }
    if (op.dweight)
      op.dweight[r] = accumulator<T>(dweight);
  }
}

template void run(const activation_forward<float>&);
template void run(const activation_forward<double>&);
template void run(const activation_forward<bf16>&);
template void run(const activation_forward<f16>&);
template void run(const activation_backward<float>&);
template void run(const activation_backward<double>&);
template void run(const activation_backward<bf16>&);
template void run(const activation_backward<f16>&);

}  // namespace troupe::kernels::reference
