#include "kernels/reference/reference.hpp"

#include <algorithm>

namespace troupe::kernels::reference {

template <class T>
void run(const add<T>& op) {
  for (std::int64_t i = 0; i < op.n; ++i)
    op.y[i] = T(accumulator<T>(op.a[i]) + accumulator<T>(op.b[i]));
}

// Adds in the accumulator type: the source order and the rounding after each addition are the
// contract.
template <class T>
void run(const ordered_sum<T>& op) {
  for (std::int64_t i = 0; i < op.n; ++i) {
    auto sum = accumulator<T>(op.sources > 0 ? op.x[0][i] : T(0.0f));
    for (std::int64_t s = 1; s < op.sources; ++s)
      sum += accumulator<T>(op.x[s][i]);
    op.y[i] = T(sum * op.scale);
  }
}

template <class T>
void run(const square_norm<T>& op) {
  double total = 0;
  for (std::int64_t begin = 0; begin < op.n; begin += op.block) {
    const std::int64_t end = std::min(begin + op.block, op.n);
    double lane[square_norm<T>::lanes] = {};
    for (std::int64_t i = begin; i < end; ++i)
      lane[(i - begin) % op.lanes] += double(op.x[i]) * double(op.x[i]);
    double partial = 0;
    for (const double one : lane)
      partial += one;
    total += partial;
  }
  *op.result = total;
}

template <class T>
void run(const square_norms<T>& op) {
  for_each_grain(op, [](const square_norm<T>& one) { run(one); });
  constexpr std::int64_t words = sizeof(T) / 4;  // per element
  for (std::int64_t i = 0; op.fingerprints && i < op.count; ++i) {
    const typename fingerprint<T>::piece one{
        op.pieces[i].x, words * op.pieces[i].n, op.pieces[i].keys};
    run(fingerprint<T>{op.fingerprints + 2 * i, &one, 1, words * op.grain});
  }
}

template void run(const add<float>&);
template void run(const add<double>&);
template void run(const add<bf16>&);
template void run(const add<f16>&);
template void run(const ordered_sum<float>&);
template void run(const ordered_sum<double>&);
template void run(const ordered_sum<bf16>&);
template void run(const ordered_sum<f16>&);
template void run(const square_norm<float>&);
template void run(const square_norm<double>&);
template void run(const square_norms<float>&);
template void run(const square_norms<double>&);

}  // namespace troupe::kernels::reference
