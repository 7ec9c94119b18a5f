// Updates with one moment, and what they leave, by the reference's fingerprints.

#pragma once

#include "kernels/reference/reference.hpp"
#include "tests/support/numbers.hpp"

#include <random>
#include <vector>

namespace troupe::tests {

/// So many keys for each of `arrays` arrays of n elements.
inline std::vector<std::uint64_t> keys_for(std::int64_t arrays,
                                           std::int64_t n,
                                           std::int64_t grain) {
  std::mt19937_64 draw(5);
  std::vector<std::uint64_t> out;
  for (std::int64_t i = arrays * kernels::grains_in(n, grain); i > 0; --i)
    out.push_back(draw());
  return out;
}

/// Of arrays of one size.
inline std::vector<std::uint64_t> fingerprints_of(const std::vector<std::vector<float>>& arrays,
                                                  const std::vector<std::uint64_t>& keys,
                                                  std::int64_t grain) {
  std::vector<kernels::fingerprint<float>::piece> pieces;
  for (const auto& x : arrays)
    pieces.push_back(
        {x.data(),
         std::int64_t(x.size()),
         keys.data()
             + std::int64_t(pieces.size()) * kernels::grains_in(std::int64_t(x.size()), grain)});
  std::vector<std::uint64_t> out(2 * arrays.size());
  kernels::reference::run(
      kernels::fingerprint<float>{out.data(), pieces.data(), std::int64_t(pieces.size()), grain});
  return out;
}

inline kernels::momentum_step<float> momentum_like(kernels::momentum_rule rule) {
  const bool lion = rule == kernels::momentum_rule::lion;
  return {.x = nullptr,
          .m = nullptr,
          .dx = nullptr,
          .n = 0,
          .rule = rule,
          .gradient_scale = 0.5F,
          .rate = 0.25F,
          .beta1 = lion ? 0.95F : 0.9F,
          .beta2 = lion ? 0.98F : 0.0F,
          .weight_decay = 0.1F};
}

}  // namespace troupe::tests
