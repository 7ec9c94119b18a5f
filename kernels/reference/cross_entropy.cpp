#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::reference {

template <class T>
void run(const cross_entropy_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* logits = op.logits + r * op.V;
    // The largest is taken out, or exp overflows.
    const double largest = *std::max_element(logits, logits + op.vocabulary);
    double sum = 0;
    for (std::int64_t v = 0; v < op.vocabulary; ++v)
      sum += std::exp(double(logits[v]) - largest);
    const double lse = largest + std::log(sum);
    op.loss[r] = float(lse - double(logits[op.target[r]]));
    if (op.lse)
      op.lse[r] = float(lse);
  }
}

template <class T>
void run(const cross_entropy_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const double dloss = op.dloss[r];
    for (std::int64_t v = 0; v < op.V; ++v) {
      T& dlogit = op.dlogits[r * op.V + v];
      // A masked row may hold infinities: 0 is said, not computed.
      if (v >= op.vocabulary || dloss == 0) {
        dlogit = 0;
        continue;
      }
      const double p = std::exp(double(op.logits[r * op.V + v]) - double(op.lse[r]));
      dlogit = T((p - (v == op.target[r] ? 1 : 0)) * dloss);
    }
  }
}

template void run(const cross_entropy_forward<float>&);
template void run(const cross_entropy_forward<double>&);
template void run(const cross_entropy_backward<float>&);
template void run(const cross_entropy_backward<double>&);

}  // namespace troupe::kernels::reference
