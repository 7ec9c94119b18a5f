#include "runtime/family/gpt/gpt_config.hpp"

#include "runtime/core/divisor.hpp"
#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt_rules.hpp"
#include "runtime/family/size_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::runtime {
namespace {

bool validate_sizes(const gpt_config& x, std::vector<std::string>& out) {
  std::vector<named_size> sizes = {{"layers", x.layers},
                                   {"hidden", x.hidden},
                                   {"heads", x.heads},
                                   {"groups", x.groups},
                                   {"head_size", x.head_size},
                                   {"ffn", x.ffn},
                                   {"sequence", x.sequence},
                                   {"vocabulary", x.vocabulary}};
  const auto add = [&](const char* setting, std::int64_t size) {
    sizes.push_back({setting, size});
  };
  if (const auto& y = x.latent; x.has_latents()) {
    add("latent.kv_rank", y.kv_rank);
    add("latent.own_size", y.own_size);
    add("latent.rotated", y.rotated);
    add("latent.value_size", y.value_size);
    if (y.q_rank != 0)
      add("latent.q_rank", y.q_rank);
  }
  if (const auto& y = x.experts; x.has_experts()) {
    add("experts.ffn", y.ffn);
    if (y.latent != 0)
      add("experts.latent", y.latent);
    if (y.shared_ffn != 0)
      add("experts.shared_ffn", y.shared_ffn);
  }
  require_sizes(sizes, out);
  return out.empty();
}

void validate_llama3(const gpt_config& x, std::vector<std::string>& out) {
  if (!(x.llama3_low > 0 && x.llama3_low < x.llama3_high) || !std::isfinite(x.llama3_high))
    out.push_back(
        fmt::format("Llama 3's low_freq_factor is {} and its high_freq_factor {}: the first must "
                    "be above 0 and below the second, usually 1 and 4",
                    x.llama3_low,
                    x.llama3_high));
}

void validate_yarn(const gpt_config& x, std::vector<std::string>& out) {
  if (!(x.yarn_slow > 0 && x.yarn_slow <= x.yarn_fast) || !std::isfinite(x.yarn_fast))
    out.push_back(
        fmt::format("`model.yarn_slow` is {} and `model.yarn_fast` {}: the first must be above 0 "
                    "and at most the second, usually 1 and 32",
                    x.yarn_slow,
                    x.yarn_fast));
  if (!(x.yarn_mscale >= 0 && x.yarn_mscale_all >= 0) || !std::isfinite(x.yarn_mscale)
      || !std::isfinite(x.yarn_mscale_all))
    out.push_back(fmt::format(
        "`model.yarn_mscale` is {} and `model.yarn_mscale_all` {}: give 0 or more, usually 1 and 0",
        x.yarn_mscale,
        x.yarn_mscale_all));
  if (!(x.rotary_base > 1))
    out.push_back(fmt::format(
        "`model.rotary_base` is {}, and YaRN divides by its logarithm: give more than 1, "
        "usually 10000",
        x.rotary_base));
  const bool whole = x.has_latents() || (x.rotary_percent == 1 && !x.rotary_interleaved);
  if (!whole || x.rotary_interpolation != 1)
    out.emplace_back(
        "`model.position` yarn rotates all channels of a head, in halves: leave out "
        "`model.rotary_percent`, `model.rotary_interleaved` and `model.rotary_interpolation`");
}

void validate_scaling(const gpt_config& x, std::vector<std::string>& out) {
  if (!(x.rotary_interpolation >= 1) || !std::isfinite(x.rotary_interpolation))
    out.push_back(
        fmt::format("`model.rotary_interpolation` is {}; give 1 or more", x.rotary_interpolation));
  if (x.scaling == rope_scaling::none)
    return;
  const bool yarn = x.scaling == rope_scaling::yarn;
  if (!(x.scaling_factor >= 1) || !std::isfinite(x.scaling_factor))
    out.push_back(fmt::format("{} is {}; give 1 or more",
                              yarn ? "`model.yarn_factor`" : "`model.scaling_factor`",
                              x.scaling_factor));
  if (x.scaling_positions < 1 || x.scaling_positions > largest_size)
    out.push_back(fmt::format(
        "{} is {}; give the original context length of the model",
        yarn ? "`model.scaling_positions`" : "Llama 3's original_max_position_embeddings",
        x.scaling_positions));
  if (yarn)
    validate_yarn(x, out);
  else
    validate_llama3(x, out);
}

void validate_positions(const gpt_config& x, std::vector<std::string>& out) {
  if (x.position == position_embedding::learned_absolute)
    require_positions(x.positions, x.sequence, out);
  if (x.position != position_embedding::rope) {
    if (x.scaling != rope_scaling::none || x.rotary_interpolation != 1)
      out.emplace_back(
          "`model.scaling=llama3` and `model.rotary_interpolation` scale rotary positions, but the "
          "positions are not rotary: give `model.position` rope, or leave them out");
    return;
  }
  validate_scaling(x, out);
  if (!(x.rotary_base > 0) || !std::isfinite(x.rotary_base))
    out.push_back(fmt::format("`model.rotary_base` is {}; give a positive number, usually 10000",
                              x.rotary_base));
  if (x.has_latents())
    return;  // validate_latents
  if (x.head_size < 2) {
    out.push_back(
        fmt::format("`model.head_size` is {}, but rotary embedding rotates pairs of channels; "
                    "give at least 2",
                    x.head_size));
    return;
  }
  const bool possible = x.rotary_percent > 0 && x.rotary_percent <= 1;
  const auto turned = possible ? std::int64_t(double(x.head_size) * x.rotary_percent) : 0;
  if (turned < 2 || turned % 2 != 0) {
    const auto even = std::max<std::int64_t>(2, (possible ? turned : x.head_size) / 2 * 2);
    out.push_back(fmt::format(
        "`model.rotary_percent` {} of `model.head_size` {} rotates {} channels, which is "
        "not an even number from 2 to {}; give {:.6g}",
        x.rotary_percent,
        x.head_size,
        turned,
        x.head_size,
        double(even) / double(x.head_size)));
  }
}

void validate_numbers(const gpt_config& x, std::vector<std::string>& out) {
  require_numbers(x.norm_epsilon, "1e-5", x.init_std, x.hidden_dropout, x.attention_dropout, out);
  if (x.gain_offset != 0 && x.gain_offset != 1)
    out.push_back(fmt::format(
        "the offset of stored gains is {}; give 0, or 1 with `model.gain_offset`", x.gain_offset));
  if (x.qk_norm_rows && (!x.qk_norm || x.has_latents()))
    out.emplace_back(
        "`model.qk_norm_rows` does nothing without `model.qk_norm`, and latent attention has norms "
        "of its own: leave it out");
  if (x.window < -1 || x.window > largest_size)
    out.push_back(
        fmt::format("`model.window` is {}; give 0 to {}, or -1 for all", x.window, largest_size));
}

template <class Number>
Number attention_parameters(const gpt_config& x) {
  const auto C = Number(x.hidden), H = Number(x.heads), q = H * Number(x.head_size);
  const auto per_norm = Number(x.normalization == kernels::normalization::layer ? 2 : 1);
  if (x.has_latents()) {
    const auto& y = x.latent;
    const auto rank = Number(y.kv_rank), q_rank = Number(y.q_rank),
               values = H * Number(y.value_size);
    return (y.q_rank > 0 ? q_rank * (C + q + per_norm) : q * C) + (rank + Number(y.rotated)) * C
           + rank * (per_norm + H * Number(y.own_size) + values) + values * C;
  }
  const auto qkv = Number(x.heads + 2 * x.groups) * Number(x.head_size);
  Number n = qkv * C + q * C;
  if (x.qk_norm)
    n += per_norm * Number(x.qk_norm_rows ? x.heads + x.groups : 2) * Number(x.head_size);
  if (x.linear_bias)
    n += qkv + C;
  else if (x.qkv_bias)
    n += qkv;
  return n;
}

template <class Number>
Number feed_forward_parameters(const gpt_config& x) {
  const auto C = Number(x.hidden), ffn = Number(x.ffn);
  const auto fc1 = ffn * Number(kernels::fan_in(x.gated));
  return fc1 * C + ffn * C + (x.linear_bias ? fc1 + C : Number(0));
}

template <class Number>
Number expert_parameters(const gpt_config& x) {
  const auto& y = x.experts;
  return Number(kernels::fan_in(x.gated) + 1) * Number(y.ffn)
         * Number(y.latent > 0 ? y.latent : x.hidden);
}

template <class Number>
Number experts_parameters(const gpt_config& x) {
  const auto& y = x.experts;
  const auto C = Number(x.hidden), E = Number(y.number), latent = Number(y.latent);
  const auto products = Number(kernels::fan_in(x.gated) + 1);
  Number n = E * C + E * expert_parameters<Number>(x);
  n += products * Number(y.shared_ffn) * C + 2 * latent * C;
  if (y.shared_gate)
    n += C;
  return y.has_bias() ? n + E : n;
}

/// Number is the type of the count.
template <class Number>
Number count_parameters(const gpt_config& x) {
  const auto C = Number(x.hidden);
  const auto per_norm = Number(x.normalization == kernels::normalization::layer ? 2 : 1);
  Number n = Number(x.vocabulary) * C * Number(x.tied_embeddings ? 1 : 2);
  if (x.position == position_embedding::learned_absolute)
    n += Number(x.positions) * C;
  n += Number(x.layers) * (2 * per_norm * C + attention_parameters<Number>(x));
  const auto expert_layers = x.expert_layers();
  const auto with = Number(std::count(expert_layers.begin(), expert_layers.end(), true));
  n += (Number(x.layers) - with) * feed_forward_parameters<Number>(x);
  if (x.has_experts())
    n += with * experts_parameters<Number>(x);
  return n + C * per_norm;
}

}  // namespace

std::vector<std::string> validate(const gpt_config& config) {
  std::vector<std::string> out;
  if (validate_sizes(config, out)) {
    if (config.heads % config.groups != 0)
      out.push_back(
          fmt::format("`model.groups` {} does not divide `model.heads` {}; "
                      "give {}",
                      config.groups,
                      config.heads,
                      nearest_divisor(config.heads, config.groups)));
    require_padding(config.vocabulary, config.padded_vocabulary, out);
    require_parameters(count_parameters<double>(config), "layers", out);
  }
  validate_positions(config, out);
  validate_numbers(config, out);
  if (config.has_latents())
    validate_latents(config, out);
  if (config.has_experts())
    validate_experts(config, out);
  return out;
}

std::int64_t parameter_count(const gpt_config& config) {
  return count_parameters<std::int64_t>(config);
}

std::int64_t active_parameter_count(const gpt_config& config) {
  const auto& x = config.experts;
  const auto layers = config.expert_layers();
  return parameter_count(config)
         - std::count(layers.begin(), layers.end(), true) * (x.number - x.chosen)
               * expert_parameters<std::int64_t>(config);
}

}  // namespace troupe::runtime
