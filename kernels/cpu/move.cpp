#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"

#include <cstring>

namespace troupe::kernels::cpu {

template <class T>
void run(const cache_rows<T>& op, const context&) {
  for (std::int64_t r = 0; r < op.R; ++r) {
    op.positions[op.at[r]] = op.position[r];
    for (std::int64_t g = 0; g < op.G; ++g)
      std::memcpy(op.entries + (op.at[r] * op.G + g) * op.width,
                  op.kv + r * op.row + g * op.group,
                  std::size_t(op.width) * sizeof(T));
  }
}

template <class T>
void run(const narrow<T>& op, const context& in) {
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      op.y[i] = T(op.x[i]);
  });
}

template <class T>
void run(const widen<T>& op, const context& in) {
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      op.y[i] = float(op.x[i]);
  });
}

template void run(const cache_rows<float>&, const context&);
template void run(const cache_rows<bf16>&, const context&);
template void run(const cache_rows<f16>&, const context&);
template void run(const narrow<bf16>&, const context&);
template void run(const narrow<f16>&, const context&);
template void run(const widen<bf16>&, const context&);
template void run(const widen<f16>&, const context&);

}  // namespace troupe::kernels::cpu
