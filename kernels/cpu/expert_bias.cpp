#include "kernels/cpu/cpu.hpp"

namespace troupe::kernels::cpu {

// Single-threaded: there are at most a few thousand experts.
template <class T>
void run(const expert_bias_step<T>& op, const context&) {
  double sum = 0;
  for (std::int64_t e = 0; e < op.E; ++e)
    sum += double(op.counts[e]);
  for (std::int64_t e = 0; e < op.E; ++e) {
    const double share = double(op.counts[e]) * double(op.E);
    if (share < sum)
      op.bias[e] += op.rate;
    else if (share > sum)
      op.bias[e] -= op.rate;
  }
}

template void run(const expert_bias_step<float>&, const context&);

}  // namespace troupe::kernels::cpu
