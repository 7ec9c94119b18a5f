#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

namespace {

/// Index of the row in the table, or -1 if the table is a shard without it.
template <class Op>
std::int64_t row_of(const Op& op, std::int64_t r) {
  const std::int64_t row = std::int64_t{op.id[r]} - op.first;
  return row >= 0 && row < op.rows ? row : -1;
}

}  // namespace

template <class T>
void run(const embedding_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    const std::int64_t row = row_of(op, r);
    for (std::int64_t c = 0; c < op.C; ++c) {
      double y = row < 0 ? 0 : double(op.table[row * op.C + c]);
      if (op.position_table)
        y += double(op.position_table[op.position[r] * op.C + c]);
      op.y[r * op.C + c] = T(y);
    }
  }
}

// Adds in the accumulator type: the row order and the rounding after each addition are the
// contract.
template <class T>
void run(const embedding_backward<T>& op) {
  if (!op.accumulates)
    std::fill_n(op.dtable, op.rows * op.C, accumulator<T>(0));
  for (std::int64_t r = 0; r < op.R; ++r) {
    const std::int64_t row = row_of(op, r);
    for (std::int64_t c = 0; c < op.C; ++c) {
      const auto dy = accumulator<T>(op.dy[r * op.C + c]);
      if (row >= 0)
        op.dtable[row * op.C + c] += dy;
      if (op.dposition_table)
        op.dposition_table[op.position[r] * op.C + c] += dy;
    }
  }
}

template void run(const embedding_forward<float>&);
template void run(const embedding_forward<double>&);
template void run(const embedding_forward<bf16>&);
template void run(const embedding_forward<f16>&);
template void run(const embedding_backward<float>&);
template void run(const embedding_backward<double>&);
template void run(const embedding_backward<bf16>&);
template void run(const embedding_backward<f16>&);

}  // namespace troupe::kernels::reference
