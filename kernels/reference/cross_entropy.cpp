#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::kernels::reference {

template <class T>
void run(const cross_entropy_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const T* logits = op.logits + r * op.V;
    // The maximum is subtracted to keep exp from overflowing.
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t v = 0; v < op.vocabulary; ++v)
      largest = std::max(largest, double(logits[v]));
    double sum = 0;
    for (std::int64_t v = 0; v < op.vocabulary; ++v)
      sum += std::exp(double(logits[v]) - largest);
    const double lse = largest + std::log(sum);
    const std::int64_t target = std::int64_t{op.target[r]} - op.first;
    const bool here = target >= 0 && target < op.vocabulary;
    const double logit = here ? double(logits[target]) : 0;
    if (op.loss)
      op.loss[r] = float(lse - logit);
    if (op.lse)
      op.lse[r] = float(lse);
    if (op.target_logit)
      op.target_logit[r] = float(logit);
  }
}

template <class T>
void run(const cross_entropy_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const double dloss = op.dloss[r];
    for (std::int64_t v = 0; v < op.V; ++v) {
      T& dlogit = op.dlogits[r * op.V + v];
      // A masked row may hold infinities, so 0 is assigned instead of computed.
      if (v >= op.vocabulary || dloss == 0) {
        dlogit = T(0.0);
        continue;
      }
      const double p = std::exp(double(op.logits[r * op.V + v]) - double(op.lse[r]));
      dlogit = T((p - (v + op.first == op.target[r] ? 1 : 0)) * dloss);
    }
  }
}

template <class T>
void run(const cross_entropy_both_passes<T>& op) {
  run(forward_of(op));
  run(backward_of(op));
}

// If all parts are -infinity, exp(lse - largest) is NaN. The largest part therefore adds exactly 1.
template <class T>
void run(const cross_entropy_merge<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < op.parts; ++k)
      largest = std::max(largest, double(op.part_lse[k][r]));
    double sum = 0, logit = 0;
    for (std::int64_t k = 0; k < op.parts; ++k) {
      const double lse = op.part_lse[k][r];
      sum += lse == largest ? 1 : std::exp(lse - largest);
      logit += double(op.part_logit[k][r]);
    }
    const double lse = largest + std::log(sum);
    op.loss[r] = T(lse - logit);
    op.lse[r] = T(lse);
  }
}

template void run(const cross_entropy_forward<float>&);
template void run(const cross_entropy_forward<double>&);
template void run(const cross_entropy_forward<bf16>&);
template void run(const cross_entropy_forward<f16>&);
template void run(const cross_entropy_backward<float>&);
template void run(const cross_entropy_backward<double>&);
template void run(const cross_entropy_backward<bf16>&);
template void run(const cross_entropy_backward<f16>&);
template void run(const cross_entropy_both_passes<float>&);
template void run(const cross_entropy_both_passes<double>&);
template void run(const cross_entropy_both_passes<bf16>&);
template void run(const cross_entropy_both_passes<f16>&);
template void run(const cross_entropy_merge<float>&);
template void run(const cross_entropy_merge<double>&);

}  // namespace troupe::kernels::reference
