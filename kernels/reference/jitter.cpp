#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const jitter<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r)
    for (std::int64_t c = 0; c < op.C; ++c) {
      const std::int64_t q = op.first_row + r, i = r * op.C + c;
      const auto index = std::uint64_t((q % op.T_) * op.C + c);
      const double u = double(philox_word(op.key, op.sample[q / op.T_], index) >> 8) * 0x1p-24;
      op.y[i] = T(double(op.x[i]) * (1 - double(op.eps) + 2 * double(op.eps) * u));
    }
}

template void run(const jitter<float>&);
template void run(const jitter<double>&);

}  // namespace troupe::kernels::reference
