#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const masked_loss_forward<T>& op) {
  *op.tokens = 0;
  for (std::int64_t r = 0; r < op.R; ++r)
    *op.tokens += double(op.mask[r]);
  if (op.total == nullptr)
    return;
  *op.total = 0;
  for (std::int64_t r = 0; r < op.R; ++r)
    *op.total += double(op.loss[r]) * double(op.mask[r]);
}

template <class T>
void run(const masked_loss_backward<T>& op) {
  const float factor = row_factor(op);
  for (std::int64_t r = 0; r < op.R; ++r)
    op.dloss[r] = float(op.mask[r]) * factor;
}

template void run(const masked_loss_forward<float>&);
template void run(const masked_loss_forward<double>&);
template void run(const masked_loss_backward<float>&);
template void run(const masked_loss_backward<double>&);

}  // namespace troupe::kernels::reference
