#include "kernels/reference/reference.hpp"

namespace troupe::kernels::reference {

template <class T>
void run(const fingerprint<T>& op) {
  for (std::int64_t p = 0; p < op.count; ++p) {
    const auto* const x = static_cast<const std::uint32_t*>(op.pieces[p].x);
    const auto n = op.pieces[p].n;
    for (int j = 0; j < 2; ++j) {
      const auto key = fingerprint_key_of(op.pieces[p].key, j);
      std::uint64_t sum = 0;
      for (std::int64_t i = 0; 2 * i < n; ++i)
        sum += fingerprint_term(
            x[2 * i], 2 * i + 1 < n ? x[2 * i + 1] : 0, key.at(std::uint64_t(i)));
      op.results[2 * p + j] = sum;
    }
  }
}

template void run(const fingerprint<float>&);
template void run(const fingerprint<double>&);

}  // namespace troupe::kernels::reference
