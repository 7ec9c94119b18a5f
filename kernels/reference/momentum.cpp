#include "kernels/reference/reference.hpp"

#include <cmath>
#include <initializer_list>
#include <vector>

namespace troupe::kernels::reference {

namespace {

/// Writes the fingerprints of arrays of n elements, if requested.
template <class T>
void take(const written_fingerprints& of, std::initializer_list<const T*> arrays, std::int64_t n) {
  if (!of.results)
    return;
  constexpr std::int64_t words = sizeof(T) / 4;  // per element
  std::vector<typename fingerprint<T>::piece> pieces;
  for (const auto* x : arrays)
    pieces.push_back(
        {x, words * n, of.keys + std::int64_t(pieces.size()) * grains_in(n, of.grain)});
  run(fingerprint<T>{of.results, pieces.data(), std::int64_t(pieces.size()), words * of.grain});
}

}  // namespace

template <class T>
void run(const momentum_step<T>& op) {
  const double beta1 = op.beta1, beta2 = op.beta2, rate = op.rate, decay = op.weight_decay;
  for (std::int64_t i = 0; i < op.n; ++i) {
    const double g = double(op.dx[i]) * double(op.gradient_scale);
    const double x = op.x[i], m = op.m[i];
    if (op.rule == momentum_rule::sgd) {
      const double next = beta1 * m + g + decay * x;
      op.m[i] = T(next);
      op.x[i] = T(x - rate * next);
    } else {
      const double c = beta1 * m + (1 - beta1) * g;
      op.m[i] = T(beta2 * m + (1 - beta2) * g);
      op.x[i] = T(x - rate * (decay * x + (c > 0 ? 1 : c < 0 ? -1 : 0)));
    }
    if (op.rounded && op.rounded_to == narrow_type::bf16)
      static_cast<bf16*>(op.rounded)[i] = bf16(op.x[i]);
    else if (op.rounded)
      static_cast<f16*>(op.rounded)[i] = f16(op.x[i]);
  }
  take<T>(op.fingerprints, {op.x, op.m}, op.n);
}

template <class T>
void run(const scaled_sum<T>& op) {
  double square = 0;
  for (std::int64_t k = 0; k < op.count; ++k)
    square += op.squares[k];
  const double a = factor_of(op, std::sqrt(square));
  for (std::int64_t i = 0; i < op.n; ++i)
    op.y[i] = T(a * double(op.x[i]) + (op.z ? double(op.b) * double(op.z[i]) : 0));
  take<T>(op.fingerprints, {op.y}, op.n);
}

template void run(const momentum_step<float>&);
template void run(const momentum_step<double>&);
template void run(const scaled_sum<float>&);
template void run(const scaled_sum<double>&);

}  // namespace troupe::kernels::reference
