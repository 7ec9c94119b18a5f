#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const narrow<T>& op) {
  for (std::int64_t i = 0; i < op.n; ++i)
    op.y[i] = T(op.x[i]);
}

template <class T>
void run(const widen<T>& op) {
  for (std::int64_t i = 0; i < op.n; ++i)
    op.y[i] = float(op.x[i]);
}

template void run(const narrow<bf16>&);
template void run(const narrow<f16>&);
template void run(const widen<bf16>&);
template void run(const widen<f16>&);

}  // namespace troupe::kernels::reference
