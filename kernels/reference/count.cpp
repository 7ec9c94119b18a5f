#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const count_zeros<T>& op) {
  *op.result = 0;
  for (std::int64_t i = 0; i < op.n; ++i)
    *op.result += op.x[i] == T(0) ? 1 : 0;
}

template void run(const count_zeros<float>&);
template void run(const count_zeros<double>&);

}  // namespace troupe::kernels::reference
