#include "kernels/reference/reference.hpp"
#include "kernels/reference/scalar.hpp"

namespace troupe::kernels::reference {

namespace {

double value(epilogue kind, double z) {
  return kind == epilogue::none ? z : activated(activation_of(kind), z);
}

double slope(epilogue kind, double z) {
  return kind == epilogue::none ? 1 : activation_slope(activation_of(kind), z);
}

}  // namespace

template <class T>
void run(const linear_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t n = 0; n < op.N; ++n) {
      double z = op.bias ? double(op.bias[n]) : 0;
      for (std::int64_t k = 0; k < op.K; ++k)
        z += double(op.x[r * op.K + k]) * double(op.weight[n * op.K + k]);
      if (op.z)
        op.z[r * op.N + n] = T(z);
      op.y[r * op.N + n] = T(value(op.activation, z));
    }
  }
}

template <class T>
void run(const linear_backward_input<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t k = 0; k < op.K; ++k) {
      double sum = 0;
      for (std::int64_t n = 0; n < op.N; ++n)
        sum += double(op.dz[r * op.N + n]) * double(op.weight[n * op.K + k]);
      if (op.activation != epilogue::none)
        sum *= slope(op.activation, double(op.z[r * op.K + k]));
      op.dx[r * op.K + k] = T(sum);
    }
  }
}

template <class T>
void run(const linear_backward_weight<T>& op) {
  for (std::int64_t n = 0; n < op.N; ++n) {
    for (std::int64_t k = 0; k < op.K; ++k) {
      double sum = op.accumulates ? double(op.dweight[n * op.K + k]) : 0;
      for (std::int64_t r = 0; r < op.R; ++r)
        sum += double(op.dz[r * op.N + n]) * double(op.x[r * op.K + k]);
      op.dweight[n * op.K + k] = accumulator<T>(sum);
    }
    if (op.dbias) {
      double sum = op.dbias[n];
      for (std::int64_t r = 0; r < op.R; ++r)
        sum += double(op.dz[r * op.N + n]);
      op.dbias[n] = accumulator<T>(sum);
    }
  }
}

template void run(const linear_forward<float>&);
template void run(const linear_forward<double>&);
template void run(const linear_forward<bf16>&);
template void run(const linear_forward<f16>&);
template void run(const linear_backward_input<float>&);
template void run(const linear_backward_input<double>&);
template void run(const linear_backward_input<bf16>&);
template void run(const linear_backward_input<f16>&);
template void run(const linear_backward_weight<float>&);
template void run(const linear_backward_weight<double>&);
template void run(const linear_backward_weight<bf16>&);
template void run(const linear_backward_weight<f16>&);

}  // namespace troupe::kernels::reference
