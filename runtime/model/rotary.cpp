#include "runtime/model/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::runtime {
namespace {

using std::int64_t;

constexpr double turn = 2 * std::numbers::pi;

double llama3_frequency(const gpt_config& c, double frequency) {
  const auto turns = double(c.scaling_positions) * frequency / turn;
  const auto stretched = frequency / c.scaling_factor;
  if (turns < c.llama3_low)
    return stretched;
  if (turns > c.llama3_high)
    return frequency;
  const auto kept = (turns - c.llama3_low) / (c.llama3_high - c.llama3_low);
  return (1 - kept) * stretched + kept * frequency;
}

/// The pair of channels, as a real number, that makes `turns` turns in scaling_positions.
double yarn_place(const gpt_config& c, double turns) {
  return double(c.head_size) * std::log(double(c.scaling_positions) / (turns * turn))
         / (2 * std::log(c.rotary_base));
}

double yarn_frequency(const gpt_config& c, double frequency, int64_t i) {
  auto from = yarn_place(c, c.yarn_fast), to = yarn_place(c, c.yarn_slow);
  if (c.yarn_round) {
    from = std::floor(from);
    to = std::ceil(to);
  }
  from = std::max(from, 0.0);
  to = std::min(to, double(c.head_size - 1));
  if (from == to)
    to += 0.001;  // as Megatron-LM and Transformers do
  const auto stretched = std::clamp((double(i) - from) / (to - from), 0.0, 1.0);
  return frequency / c.scaling_factor * stretched + frequency * (1 - stretched);
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

}  // namespace

std::vector<float> rotary_frequencies(const gpt_config& config) {
  std::vector<float> out;
  if (config.position != position_embedding::rope)
    return out;
  const auto rotated = int64_t(double(config.head_size) * config.rotary_percent) / 2 * 2;
  for (int64_t i = 0; i < rotated / 2; ++i) {
    auto frequency = std::pow(config.rotary_base, -2.0 * double(i) / double(rotated));
    if (config.scaling == rope_scaling::llama3)
      frequency = llama3_frequency(config, frequency);
    else if (config.scaling == rope_scaling::yarn)
      frequency = yarn_frequency(config, frequency, i);
    out.push_back(float(frequency / config.rotary_interpolation));
  }
  return out;
}

double rotary_concentration(const gpt_config& config) {
  if (config.position != position_embedding::rope || config.scaling != rope_scaling::yarn)
    return 1;
  return yarn_magnitude(config.scaling_factor, config.yarn_mscale)
         / yarn_magnitude(config.scaling_factor, config.yarn_mscale_all);
}

}  // namespace troupe::runtime
