#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const embedding_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t c = 0; c < op.C; ++c) {
      auto y = double(op.table[op.id[r] * op.C + c]);
      if (op.position_table)
        y += double(op.position_table[op.position[r] * op.C + c]);
      op.y[r * op.C + c] = T(y);
    }
  }
}

// Not in double: the order of the rows and the rounding after each are the contract.
template <class T>
void run(const embedding_backward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    for (std::int64_t c = 0; c < op.C; ++c) {
      const auto dy = accumulator<T>(op.dy[r * op.C + c]);
      op.dtable[op.id[r] * op.C + c] += dy;
      if (op.dposition_table)
        op.dposition_table[op.position[r] * op.C + c] += dy;
    }
  }
}

template void run(const embedding_forward<float>&);
template void run(const embedding_forward<double>&);
template void run(const embedding_forward<bf16>&);
template void run(const embedding_backward<float>&);
template void run(const embedding_backward<double>&);
template void run(const embedding_backward<bf16>&);

}  // namespace troupe::kernels::reference
