#include "kernels/reference/reference.hpp"

#include <algorithm>

namespace troupe::kernels::reference {

namespace {

std::uint64_t fingerprint_of(const std::uint32_t* x, std::int64_t n, fingerprint_key key) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; 2 * i < n; ++i)
    sum += fingerprint_term(x[2 * i], 2 * i + 1 < n ? x[2 * i + 1] : 0, key.at(std::uint64_t(i)));
  return sum;
}

}  // namespace

template <class T>
void run(const fingerprint<T>& op) {
  for (std::int64_t p = 0; p < op.count; ++p) {
    const auto& all = op.pieces[p];
    const auto* const x = static_cast<const std::uint32_t*>(all.x);
    fingerprint_sum sum{0, 0};
    for (std::int64_t g = 0; g < grains_in(all.n, op.grain); ++g) {
      const auto begin = g * op.grain, n = std::min(op.grain, all.n - begin);
      sum.add(fingerprint_of(x + begin, n, fingerprint_key_of(all.keys[g], 0)),
              fingerprint_of(x + begin, n, fingerprint_key_of(all.keys[g], 1)));
    }
    op.results[2 * p] = sum.high;
    op.results[2 * p + 1] = sum.low;
  }
}

template void run(const fingerprint<float>&);
template void run(const fingerprint<double>&);

}  // namespace troupe::kernels::reference
