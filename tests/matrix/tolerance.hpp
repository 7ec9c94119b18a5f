// Tolerance between two arrangements for one step from the same state.
//
// Two arrangements compute the same expressions in another order, so they differ only by roundings.
// A rounding error is at most u, the unit roundoff of the format. As a random number it has
// deviation u / sqrt(3), and the difference of two arrangements u * sqrt(2 / 3). Roundings have
// random signs, so n successive ones add up to sqrt(n) times one (Higham and Mary, A New Approach
// to Probabilistic Rounding Error Analysis, 2019). A mean over N tokens with independent roundings
// has 1 / sqrt(N) of that. The tolerance is `deviations` times this value.
//
// The tolerance is derived, not measured; matrix prints the used share.

#pragma once

#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/job/job.hpp"

#include <cmath>

namespace troupe::matrix {

struct tolerance {
  double loss = 0, norm = 0;  ///< relative
};

/// Half the distance of adjacent numbers at 1; the formats have 24, 8 and 11 binary digits.
inline double unit_roundoff(runtime::dtype x) {
  return std::ldexp(1.0, x == runtime::dtype::f32 ? -24 : x == runtime::dtype::bf16 ? -8 : -11);
}

inline tolerance tolerance_of(const runtime::training_job& job) {
  const auto& m = job.training.model.as<runtime::gpt_config>();
  // Number of successive roundings from a token to its loss. Per layer: norm, QKV projection, its
  // bias, RoPE, scores, weighted values, projection, sum over tensor ranks, residual; norm,
  // product, activation, product, sum, residual. Outside of layers: embedding, position, dropout;
  // norm, logits.
  const double forward = 15 * double(m.layers) + 5;
  const double both_passes = 2 * forward;
  // Narrow tensors are rounded once per element, because products add in f32. In f32 each addition
  // of a product is also a rounding; the longest products have `ffn` terms.
  const double additions = job.training.precision == runtime::dtype::f32 ? double(m.ffn) : 1;
  const double tokens = 0.8 * double(job.training.batch.global * m.sequence);  // unmasked tokens
  constexpr double deviations = 4;  // 1 in 16,000 comparisons exceeds it by chance; there are 300
  const auto allowed = [&](double roundings) {
    return deviations * std::sqrt(2.0 / 3) * unit_roundoff(job.training.precision)
           * std::sqrt(roundings * additions / tokens);
  };
  return {.loss = allowed(forward), .norm = allowed(both_passes)};
}

}  // namespace troupe::matrix
