#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const bias_backward<T>& op) {
  for (std::int64_t n = 0; n < op.N; ++n) {
    double sum = 0;
    for (std::int64_t r = 0; r < op.R; ++r)
      sum += double(op.dz[r * op.N + n]);
    op.dbias[n] = accumulator<T>((op.accumulates ? double(op.dbias[n]) : 0) + sum);
  }
}

template void run(const bias_backward<float>&);
template void run(const bias_backward<double>&);
template void run(const bias_backward<bf16>&);
template void run(const bias_backward<f16>&);

}  // namespace troupe::kernels::reference
