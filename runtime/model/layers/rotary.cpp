#include "runtime/model/layers/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::runtime {
namespace {

using std::int64_t;

constexpr double turn = 2 * std::numbers::pi;

double llama3_frequency(const rotary_spec& x, double frequency) {
  const auto turns = double(x.positions) * frequency / turn;
  const auto stretched = frequency / x.factor;
  if (turns < x.llama3_low)
    return stretched;
  if (turns > x.llama3_high)
    return frequency;
  const auto kept = (turns - x.llama3_low) / (x.llama3_high - x.llama3_low);
  return (1 - kept) * stretched + kept * frequency;
}

/// The (fractional) index of the pair of channels that makes `turns` turns over `positions`.
double yarn_place(const rotary_spec& x, double turns) {
  return double(x.head_size) * std::log(double(x.positions) / (turns * turn))
         / (2 * std::log(x.base));
}

double yarn_frequency(const rotary_spec& x, double frequency, int64_t i) {
  auto from = yarn_place(x, x.yarn_fast), to = yarn_place(x, x.yarn_slow);
  if (x.yarn_round) {
    from = std::floor(from);
    to = std::ceil(to);
  }
  from = std::max(from, 0.0);
  to = std::min(to, double(x.head_size - 1));
  if (from == to)
    to += 0.001;  // as in Megatron-LM and Transformers
  const auto stretched = std::clamp((double(i) - from) / (to - from), 0.0, 1.0);
  return frequency / x.factor * stretched + frequency * (1 - stretched);
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace

std::vector<float> rotary_frequencies(const rotary_spec& x) {
  std::vector<float> out;
  const auto rotated = int64_t(double(x.head_size) * x.percent) / 2 * 2;
  for (int64_t i = 0; i < rotated / 2; ++i) {
    auto frequency = std::pow(x.base, -2.0 * double(i) / double(rotated));
    if (x.scaling == rope_scaling::llama3)
      frequency = llama3_frequency(x, frequency);
    else if (x.scaling == rope_scaling::yarn)
      frequency = yarn_frequency(x, frequency, i);
    out.push_back(float(frequency / x.interpolation));
  }
  return out;
}

double rotary_concentration(const rotary_spec& x) {
  if (x.scaling != rope_scaling::yarn)
    return 1;
  return yarn_magnitude(x.factor, x.yarn_mscale) / yarn_magnitude(x.factor, x.yarn_mscale_all);
}

double latent_concentration(const rotary_spec& x) {
  if (x.scaling != rope_scaling::yarn)
    return 1;
  const auto m = yarn_magnitude(x.factor, x.yarn_mscale_all);
  return m * m;
}

}  // namespace troupe::runtime
