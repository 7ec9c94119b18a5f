#include "kernels/reference/reference.hpp"

#include <cmath>

namespace troupe::kernels::reference {

template <class T>
void run(const adamw<T>& op) {
  const double beta1 = op.beta1, beta2 = op.beta2, rate = op.rate;
  const auto old = source_of(op.from, op.x, op.m, op.v);
  for (std::int64_t i = 0; i < op.n; ++i) {
    const double g = double(op.dx[i]) * double(op.gradient_scale);
    const double m = beta1 * double(old.m[i]) + (1 - beta1) * g;
    const double v = beta2 * double(old.v[i]) + (1 - beta2) * g * g;
    const double step
        = (m / double(op.correction1)) / (std::sqrt(v / double(op.correction2)) + double(op.eps));
    const double x = old.x[i];
    op.x[i] = T(x - rate * double(op.weight_decay) * x - rate * step);
    op.m[i] = T(m);
    op.v[i] = T(v);
    if (op.rounded && op.rounded_to == narrow_type::bf16)
      static_cast<bf16*>(op.rounded)[i] = bf16(op.x[i]);
    else if (op.rounded)
      static_cast<f16*>(op.rounded)[i] = f16(op.x[i]);
  }
}

template <class T>
void run(const adamw_pieces<T>& op) {
  constexpr std::int64_t words = sizeof(T) / 4;  // per element
  for (std::int64_t i = 0; i < op.count; ++i) {
    run(piece_of(op, i));
    if (!op.fingerprints)
      continue;
    const auto& p = op.pieces[i];
    const auto* const keys = p.keys;
    const auto grains = grains_in(p.n, op.grain);
    const typename fingerprint<T>::piece arrays[] = {{p.x, words * p.n, keys},
                                                     {p.m, words * p.n, keys + grains},
                                                     {p.v, words * p.n, keys + 2 * grains}};
    run(fingerprint<T>{op.fingerprints + 6 * i, arrays, 3, words * op.grain});
  }
}

template void run(const adamw<float>&);
template void run(const adamw<double>&);
template void run(const adamw_pieces<float>&);
template void run(const adamw_pieces<double>&);

}  // namespace troupe::kernels::reference
