// How far one step of two arrangements may be apart, when both begin it with the same state.
//
// Two arrangements compute the same expressions and round them in another order, so they differ by
// roundings alone. Each is off by at most u, the unit roundoff of the format: as a random number it
// has deviation u / sqrt(3), and the difference of two arrangements u * sqrt(2 / 3). Roundings have
// no common sign, so n of them one after another come to sqrt(n) of one (Higham and Mary, A New
// Approach to Probabilistic Rounding Error Analysis, 2019), and a mean over N tokens, whose
// roundings are independent, to 1 / sqrt(N) of that. Allowed are `deviations` times as much.
//
// Nothing in it was measured: what a machine shows is compared with it, and matrix prints how much
// of it was used.

#pragma once

#include "runtime/trainer/job.hpp"

#include <cmath>

namespace troupe::matrix {

struct tolerance {
  double loss = 0, norm = 0;  ///< relative
};

/// Half the distance of two neighbours at 1: 24, 8 and 11 digits.
inline double unit_roundoff(runtime::dtype x) {
  return std::ldexp(1.0, x == runtime::dtype::f32 ? -24 : x == runtime::dtype::bf16 ? -8 : -11);
}

inline tolerance tolerance_of(const runtime::training_job& job) {
  const auto& m = job.training.model;
  // Tensors that are rounded one after another on the way from a token to its loss. A layer: norm,
  // projection to q, k and v, its bias, rotation, scores, weighted values, projection, sum over
  // tensor ranks, residual; norm, product, activation, product, sum, residual. Before and behind
  // all layers: embedding, position, dropout; norm, logits.
  const double forward = 15 * double(m.layers) + 5;
  const double both_passes = 2 * forward;
  // Narrow tensors are rounded once an element: products add in f32. In f32 each addition of a
  // product is a rounding like any other, and the longest products have `ffn` terms.
  const double additions = job.training.precision == runtime::dtype::f32 ? double(m.ffn) : 1;
  const double tokens = 0.8 * double(job.training.batch.global * m.sequence);  // of formula_source
  constexpr double deviations = 4;  // one comparison in 16,000 exceeds it by chance; there are 300
  const auto allowed = [&](double roundings) {
    return deviations * std::sqrt(2.0 / 3) * unit_roundoff(job.training.precision)
           * std::sqrt(roundings * additions / tokens);
  };
  return {.loss = allowed(forward), .norm = allowed(both_passes)};
}

}  // namespace troupe::matrix
