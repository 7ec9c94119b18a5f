#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"

#include <algorithm>
#include <atomic>

namespace troupe::kernels::cpu {

template <class T>
void run(const count_zeros<T>& op, const context& in) {
  std::atomic<std::int64_t> zeros = 0;
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    zeros += std::count(op.x + begin, op.x + end, 0.0F);
  });
  *op.result = zeros;
}

template void run(const count_zeros<float>&, const context&);

}  // namespace troupe::kernels::cpu
