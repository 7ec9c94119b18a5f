// Balances experts without a loss: moves the bias of each expert's key by a fixed rate.
//
// Wang et al.: "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", 2024.

#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace troupe::runtime {

/// bias[e] += rate * sign(mean of counts - counts[e]). `counts` (E) are those of all ranks in a
/// step; the comparison is exact.
inline void update_expert_bias(std::span<float> bias,
                               std::span<const std::uint64_t> counts,
                               float rate) {
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  for (std::size_t e = 0; e < bias.size(); ++e) {
    const auto scaled = counts[e] * counts.size();
    if (scaled != sum)
      bias[e] += scaled < sum ? rate : -rate;
  }
}

}  // namespace troupe::runtime
