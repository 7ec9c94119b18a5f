#include "kernels/cpu/count.hpp"

#include "kernels/cpu/split.hpp"

#include <algorithm>
#include <atomic>

namespace troupe::kernels::cpu {

void run(const count_zeros<float>& op, const context& in) {
  std::atomic<std::int64_t> zeros = 0;
  split(in.threads, op.n, elements_worth_a_thread, [&](std::int64_t begin, std::int64_t end) {
    zeros += std::count(op.x + begin, op.x + end, 0.0F);
  });
  *op.result = zeros;
}

}  // namespace troupe::kernels::cpu
