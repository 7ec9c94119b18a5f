#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/split.hpp"

#include <cmath>
#include <limits>

namespace troupe::kernels::cpu {

// Uses double, because for confident predictions the loss is a small difference. There are only a
// few numbers per row, so this is cheap.
template <class T>
void run(const cross_entropy_merge<T>& op, const context& in) {
  split(in.threads, op.R, rows_worth_a_thread(op.parts), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float largest = -std::numeric_limits<float>::infinity();
      for (std::int64_t k = 0; k < op.parts; ++k)
        largest = std::max(largest, op.part_lse[k][r]);
      double sum = 0, logit = 0;
      for (std::int64_t k = 0; k < op.parts; ++k) {
        const float lse = op.part_lse[k][r];
        // If all parts are -infinity, the difference would be NaN.
        sum += lse == largest ? 1 : std::exp(double(lse) - double(largest));
        logit += double(op.part_logit[k][r]);
      }
      const double lse = double(largest) + std::log(sum);
      op.loss[r] = float(lse - logit);
      op.lse[r] = float(lse);
    }
  });
}

template void run(const cross_entropy_merge<float>&, const context&);

}  // namespace troupe::kernels::cpu
