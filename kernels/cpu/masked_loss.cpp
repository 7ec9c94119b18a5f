#include "kernels/cpu/cpu.hpp"

namespace troupe::kernels::cpu {

// Single-threaded: adding a few thousand rows costs less than waking a second thread.
template <class T>
void run(const masked_loss_forward<T>& op, const context&) {
  double total = 0, tokens = 0;
  for (std::int64_t r = 0; r < op.R; ++r) {
    if (op.total != nullptr)
      total += double(op.loss[r]) * double(op.mask[r]);
    tokens += double(op.mask[r]);
  }
  if (op.total != nullptr)
    *op.total = total;
  *op.tokens = tokens;
}

template <class T>
void run(const masked_loss_backward<T>& op, const context&) {
  const float factor = row_factor(op);
  for (std::int64_t r = 0; r < op.R; ++r)
    op.dloss[r] = op.mask[r] * factor;
}

template void run(const masked_loss_forward<float>&, const context&);
template void run(const masked_loss_backward<float>&, const context&);

}  // namespace troupe::kernels::cpu
