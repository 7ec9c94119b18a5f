#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const expert_bias_step<T>& op) {
  double sum = 0;
  for (std::int64_t e = 0; e < op.E; ++e)
    sum += double(op.counts[e]);
  for (std::int64_t e = 0; e < op.E; ++e) {
    const double share = double(op.counts[e]) * double(op.E);
    if (share < sum)
      op.bias[e] += T(op.rate);
    else if (share > sum)
      op.bias[e] -= T(op.rate);
  }
}

template void run(const expert_bias_step<float>&);
template void run(const expert_bias_step<double>&);

}  // namespace troupe::kernels::reference
