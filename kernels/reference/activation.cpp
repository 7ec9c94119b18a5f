#include "kernels/reference/reference.hpp"
#include "kernels/reference/scalar.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const activation_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* x = op.x + r * op.N * fan_in(op.kind);
    T* y = op.y + r * op.N;
    for (std::int64_t n = 0; n < op.N; ++n) {
      switch (op.kind) {
        case activation::gelu_tanh:
          y[n] = T(gelu_tanh(double(x[n])));
          break;
        case activation::gelu_erf:
          y[n] = T(gelu_erf(double(x[n])));
          break;
        case activation::squared_relu:
          y[n] = T(squared_relu(double(x[n])));
          break;
        case activation::swiglu:
          y[n] = T(silu(double(x[n])) * double(x[op.N + n]));
          break;
      }
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
      switch (op.kind) {
        case activation::gelu_tanh:
          dx[n] = T(double(dy[n]) * gelu_tanh_slope(double(x[n])));
          break;
        case activation::gelu_erf:
          dx[n] = T(double(dy[n]) * gelu_erf_slope(double(x[n])));
          break;
        case activation::squared_relu:
          dx[n] = T(double(dy[n]) * squared_relu_slope(double(x[n])));
          break;
        case activation::swiglu: {
          // Both are read before one is written, because dx may be x.
          const auto gate = double(x[n]), linear = double(x[op.N + n]);
          dx[n] = T(double(dy[n]) * linear * silu_slope(gate));
          dx[op.N + n] = T(double(dy[n]) * silu(gate));
          break;
        }
      }
    }
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
