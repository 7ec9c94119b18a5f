#include "kernels/reference/reference.hpp"
#include "kernels/reference/scalar.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const activation_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.kind);
    T* y = op.y + r * op.N;
    for (std::int64_t n = 0; n < op.N; ++n) {
      const double value = activated(op.kind, double(x[n]));
      y[n] = T(fan_in(op.kind) == 1 ? value : value * double(x[op.N + n]));
    }
  }
}

template <class T>
void run(const activation_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.kind);
    const T* dy = op.dy + r * op.N;
    T* dx = op.dx + r * op.N * fan_in(op.kind);
    for (std::int64_t n = 0; n < op.N; ++n) {
      // Reads everything before writing, because dx may alias x or dy.
      const double at = double(x[n]), d = double(dy[n]), slope = activation_slope(op.kind, at);
      if (fan_in(op.kind) == 1) {
        dx[n] = T(d * slope);
        continue;
      }
      const double linear = double(x[op.N + n]);
      dx[n] = T(d * linear * slope);
      dx[op.N + n] = T(d * activated(op.kind, at));
    }
  }
}

template <class T>
void run(const weighted_activation_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.kind);
    for (std::int64_t n = 0; n < op.N; ++n) {
      const double value = double(op.weight[r]) * activated(op.kind, double(x[n]));
      op.y[r * op.N + n] = T(fan_in(op.kind) == 1 ? value : value * double(x[op.N + n]));
    }
  }
}

template <class T>
void run(const weighted_activation_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.kind);
    T* dx = op.dx + r * op.N * fan_in(op.kind);
    const double weight = double(op.weight[r]);
    double dweight = 0;
    for (std::int64_t n = 0; n < op.N; ++n) {
      // Reads everything before writing, because dx may alias x.
      const double at = double(x[n]), linear = fan_in(op.kind) == 1 ? 1 : double(x[op.N + n]);
      const double dy = double(op.dy[r * op.N + n]), value = activated(op.kind, at);
      dweight += dy * value * linear;
      dx[n] = T(weight * dy * linear * activation_slope(op.kind, at));
      if (fan_in(op.kind) == 2)
        dx[op.N + n] = T(weight * dy * value);
    }
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
template void run(const weighted_activation_forward<float>&);
template void run(const weighted_activation_forward<double>&);
template void run(const weighted_activation_forward<bf16>&);
template void run(const weighted_activation_forward<f16>&);
template void run(const weighted_activation_backward<float>&);
template void run(const weighted_activation_backward<double>&);
template void run(const weighted_activation_backward<bf16>&);
template void run(const weighted_activation_backward<f16>&);

}  // namespace troupe::kernels::reference
