// Angles of rotary position embedding: radians per position for each pair of channels.
//
// With d rotated channels, f[i] = base^(-2i/d), wavelength w = 2 pi / f, N = positions and s =
// factor:
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

#include <cstdint>
#include <vector>

namespace troupe::runtime {

/// The scaling of wavelengths for sequences longer than the original context length.
enum class rope_scaling : std::uint8_t { none, llama3, yarn };

struct rotary_spec {
  std::int64_t head_size = 0;  ///< D
  double base = 10000;
  double percent = 1;        ///< share of a head's channels that are rotated
  double interpolation = 1;  ///< divisor of the positions

  rope_scaling scaling = rope_scaling::none;
  double factor = 1;
  std::int64_t positions = 8192;           ///< original context length
  double llama3_low = 1, llama3_high = 4;  ///< turns in `positions`
  double yarn_fast = 32, yarn_slow = 1;    ///< turns in `positions`
  double yarn_mscale = 1, yarn_mscale_all = 0;
  bool yarn_round = true;  ///< rounds the ends of the ramp to whole channels
};

/// (rotated / 2) radians per position.
std::vector<float> rotary_frequencies(const rotary_spec& x);

/// Factor of cosine and sine; 1 without YaRN. With YaRN it is
///
///   m(s, mscale) / m(s, mscale_all),  m(s, x) = 0.1 x ln s + 1
///
/// A GPT rotates all channels of queries and keys, so its scores are multiplied by the square of
/// this factor instead. Latent attention has other channels too, so the factor is its
/// `rotary_magnitude`.
double rotary_concentration(const rotary_spec& x);

/// Factor of all scores of latent attention: the square of m(s, mscale_all); 1 without YaRN.
double latent_concentration(const rotary_spec& x);

}  // namespace troupe::runtime
