// The angles of rotary position embedding: radians a position for each pair of channels.
//
// With d channels that turn, f[i] = base^(-2i/d), wavelength w = 2 pi / f, N = scaling_positions
// and s = scaling_factor:
//
//   llama3  w > N/low: f/s;  w < N/high: f;  else (1 - m) f/s + m f
//           m = (N/w - low) / (high - low)
//
//   yarn    f/s r + f (1 - r),  r[i] = clip((i - a) / (b - a), 0, 1)
//           a = floor(c(fast)), b = ceil(c(slow)),  c(t) = d ln(N / (2 pi t)) / (2 ln base)
//
// Su et al.: "RoFormer", 2021; Grattafiori et al.: "The Llama 3 Herd of Models", 2024; Peng et al.:
// "YaRN", 2023; Chen et al.: "Extending Context Window via Positional Interpolation", 2023.

#pragma once

#include "runtime/model/gpt_config.hpp"

#include <vector>

namespace troupe::runtime {

/// (rotated / 2) radians a position; empty without rotary positions.
std::vector<float> rotary_frequencies(const gpt_config& config);

/// What cosine and sine are multiplied by: 1 but for YaRN, m(s, mscale) / m(s, mscale_all) with
/// m(s, x) = 0.1 x ln s + 1. YaRN turns every channel of queries and of keys, so this is the same
/// as attention scores times its square.
double rotary_concentration(const gpt_config& config);

}  // namespace troupe::runtime
