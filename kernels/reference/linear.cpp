#include "kernels/reference/reference.hpp"
#include "kernels/reference/scalar.hpp"

#include <algorithm>

namespace troupe::kernels::reference {

namespace {

double value(epilogue kind, double z) {
  return kind == epilogue::none ? z : activated(activation_of(kind), z);
}

double slope(epilogue kind, double z) {
  return kind == epilogue::none ? 1 : activation_slope(activation_of(kind), z);
}

// Sums computed side by side. `many` is for terms that are adjacent in memory and share cache
// lines. `few` hides the latency of an addition.
constexpr int few = 8, many = 32;

/// Calls made(i, sum) for each i < n. A sum starts at begin(i) and adds term(i, 0), term(i, 1), ...
/// in order, so its bits equal those of a sum computed alone.
template <int together, class Begin, class Term, class Made>
void add_up(std::int64_t n, std::int64_t terms, Begin begin, Term term, Made made) {
  double sum[together];
  for (std::int64_t first = 0; first < n; first += together) {
    const auto count = std::min<std::int64_t>(together, n - first);
    for (std::int64_t i = 0; i < count; ++i)
      sum[i] = begin(first + i);
    for (std::int64_t t = 0; t < terms; ++t)
      for (std::int64_t i = 0; i < count; ++i)
        sum[i] += term(first + i, t);
    for (std::int64_t i = 0; i < count; ++i)
      made(first + i, sum[i]);
  }
}

}  // namespace

template <class T>
void run(const linear_forward<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r)
    add_up<few>(
        op.N,
        op.K,
        [&](auto n) { return op.bias ? double(op.bias[n]) : 0; },
        [&](auto n, auto k) {
          return double(op.x[r * op.K + k]) * double(op.weight[n * op.K + k]);
        },
        [&](auto n, double z) {
          if (op.z)
            op.z[r * op.N + n] = T(z);
          op.y[r * op.N + n] = T(value(op.activation, z));
        });
}

template <class T>
void run(const linear_backward_input<T>& op) {
  for (std::int64_t r = 0; r < op.R; ++r)
    add_up<many>(
        op.K,
        op.N,
        [](auto) { return 0.0; },
        [&](auto k, auto n) {
          return double(op.dz[r * op.N + n]) * double(op.weight[n * op.K + k]);
        },
        [&](auto k, double sum) {
          if (op.activation != epilogue::none)
            sum *= slope(op.activation, double(op.z[r * op.K + k]));
          op.dx[r * op.K + k] = T(sum);
        });
}

template <class T>
void run(const linear_backward_weight<T>& op) {
  for (std::int64_t n = 0; n < op.N; ++n) {
    add_up<many>(
        op.K,
        op.R,
        [&](auto k) { return op.accumulates ? double(op.dweight[n * op.K + k]) : 0; },
        [&](auto k, auto r) { return double(op.dz[r * op.N + n]) * double(op.x[r * op.K + k]); },
        [&](auto k, double sum) { op.dweight[n * op.K + k] = accumulator<T>(sum); });
    if (op.dbias) {
      double sum = op.bias_accumulates ? double(op.dbias[n]) : 0;
      for (std::int64_t r = 0; r < op.R; ++r)
        sum += double(op.dz[r * op.N + n]);
      op.dbias[n] = accumulator<T>(sum);
    }
  }
}

template void run(const linear_forward<float>&);
template void run(const linear_forward<double>&);
template void run(const linear_forward<bf16>&);
template void run(const linear_forward<f16>&);
template void run(const linear_backward_input<float>&);
template void run(const linear_backward_input<double>&);
template void run(const linear_backward_input<bf16>&);
template void run(const linear_backward_input<f16>&);
template void run(const linear_backward_weight<float>&);
template void run(const linear_backward_weight<double>&);
template void run(const linear_backward_weight<bf16>&);
template void run(const linear_backward_weight<f16>&);

}  // namespace troupe::kernels::reference
