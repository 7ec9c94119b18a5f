#include "runtime/model/gpt_config.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace troupe::runtime {
namespace {

// 2^31 - 1: products of two sizes then fit in 64 bits.
constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();
// So that the bytes of parameters, gradients and optimizer state still fit in 64 bits.
constexpr double largest_model = 1e17;

struct enum_name {
  std::string_view name;
  int value;
};
constexpr enum_name position_names[]
    = {{"learned_absolute", int(position_embedding::learned_absolute)},
       {"rope", int(position_embedding::rope)},
       {"none", int(position_embedding::none)}};
constexpr enum_name normalization_names[]
    = {{"layer", int(kernels::normalization::layer)}, {"rms", int(kernels::normalization::rms)}};
constexpr enum_name activation_names[] = {{"gelu_tanh", int(kernels::activation::gelu_tanh)},
                                          {"gelu_erf", int(kernels::activation::gelu_erf)},
                                          {"swiglu", int(kernels::activation::swiglu)}};

constexpr std::span<const enum_name> names_of(position_embedding) {
  return position_names;
}
constexpr std::span<const enum_name> names_of(kernels::normalization) {
  return normalization_names;
}
constexpr std::span<const enum_name> names_of(kernels::activation) {
  return activation_names;
}

/// Calls `visit(name, field)` for every field: the one list that writing and reading share.
template <class Config, class Visitor>
void visit_fields(Config& x, Visitor&& visit) {
  visit("layers", x.layers);
  visit("hidden", x.hidden);
  visit("heads", x.heads);
  visit("groups", x.groups);
  visit("head_size", x.head_size);
  visit("ffn", x.ffn);
  visit("sequence", x.sequence);
  visit("positions", x.positions);
  visit("vocabulary", x.vocabulary);
  visit("padded_vocabulary", x.padded_vocabulary);
  visit("position", x.position);
  visit("rotary_base", x.rotary_base);
  visit("rotary_percent", x.rotary_percent);
  visit("rotary_interleaved", x.rotary_interleaved);
  visit("normalization", x.normalization);
  visit("norm_epsilon", x.norm_epsilon);
  visit("activation", x.activation);
  visit("linear_bias", x.linear_bias);
  visit("qkv_bias", x.qkv_bias);
  visit("tied_embeddings", x.tied_embeddings);
  visit("hidden_dropout", x.hidden_dropout);
  visit("attention_dropout", x.attention_dropout);
  visit("init_std", x.init_std);
}

[[noreturn]] void refuse(const char* field,
                         std::string_view expected,
                         const nlohmann::json& found) {
  throw input_error("model configuration: '{}' should be {}, but is {}",
                    field,
                    expected,
                    found.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

void assign(const char* field, std::int64_t& to, const nlohmann::json& from) {
  if (!from.is_number_integer()
      || (from.is_number_unsigned() && from.get<std::uint64_t>() > std::uint64_t(largest_size)))
    refuse(field, fmt::format("a whole number up to {}", largest_size), from);
  to = from.get<std::int64_t>();
}

void assign(const char* field, double& to, const nlohmann::json& from) {
  if (!from.is_number())
    refuse(field, "a number", from);
  to = from.get<double>();
}

void assign(const char* field, bool& to, const nlohmann::json& from) {
  if (!from.is_boolean())
    refuse(field, "true or false", from);
  to = from.get<bool>();
}

template <class Enum>
requires std::is_enum_v<Enum>
void assign(const char* field, Enum& to, const nlohmann::json& from) {
  std::string expected;
  for (const auto& [name, value] : names_of(to)) {
    if (from.is_string() && from.get_ref<const std::string&>() == name) {
      to = Enum(value);
      return;
    }
    expected += fmt::format("{}'{}'", expected.empty() ? "one of " : ", ", name);
  }
  refuse(field, expected, from);
}

std::int64_t nearest_divisor(std::int64_t number, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d <= number; ++d)
    if (number % d == 0 && std::abs(d - wanted) < std::abs(best - wanted))
      best = d;
  return best;
}

bool complain_about_sizes(const gpt_config& x, std::vector<std::string>& out) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"--num-layers", x.layers},
                                                        {"--hidden-size", x.hidden},
                                                        {"--num-attention-heads", x.heads},
                                                        {"--num-query-groups", x.groups},
                                                        {"--kv-channels", x.head_size},
                                                        {"--ffn-hidden-size", x.ffn},
                                                        {"--seq-length", x.sequence},
                                                        {"--vocab-size", x.vocabulary}};
  for (const auto& [flag, size] : sizes)
    if (size < 1 || size > largest_size)
      out.push_back(fmt::format("{} is {}; give a value from 1 to {}", flag, size, largest_size));
  return out.empty();
}

void complain_about_positions(const gpt_config& x, std::vector<std::string>& out) {
  if (x.position == position_embedding::learned_absolute
      && (x.positions < x.sequence || x.positions > largest_size))
    out.push_back(
        fmt::format("--max-position-embeddings is {}, but positions are learned and "
                    "--seq-length is {}; give at least {}",
                    x.positions,
                    x.sequence,
                    x.sequence));
  if (x.position != position_embedding::rope)
    return;
  if (!(x.rotary_base > 0) || !std::isfinite(x.rotary_base))
    out.push_back(
        fmt::format("--rotary-base is {}; give a positive number, usually 10000", x.rotary_base));
  if (x.head_size < 2) {
    out.push_back(
        fmt::format("--kv-channels is {}, but rotary positions turn pairs of channels; "
                    "give at least 2",
                    x.head_size));
    return;
  }
  const bool possible = x.rotary_percent > 0 && x.rotary_percent <= 1;
  const auto turned = possible ? std::int64_t(double(x.head_size) * x.rotary_percent) : 0;
  if (turned < 2 || turned % 2 != 0) {
    const auto even = std::max<std::int64_t>(2, (possible ? turned : x.head_size) / 2 * 2);
    out.push_back(
        fmt::format("--rotary-percent {} of --kv-channels {} turns {} channels, which is "
                    "not an even number from 2 to {}; give {:.6g}",
                    x.rotary_percent,
                    x.head_size,
                    turned,
                    x.head_size,
                    double(even) / double(x.head_size)));
  }
}

void complain_about_numbers(const gpt_config& x, std::vector<std::string>& out) {
  if (!(x.norm_epsilon > 0) || !std::isfinite(x.norm_epsilon))
    out.push_back(
        fmt::format("--norm-epsilon is {}; give a positive number, usually 1e-5", x.norm_epsilon));
  if (!(x.init_std >= 0) || !std::isfinite(x.init_std))
    out.push_back(fmt::format("--init-method-std is {}; give 0 or a positive number, usually 0.02",
                              x.init_std));
  const std::pair<const char*, double> dropouts[]
      = {{"--hidden-dropout", x.hidden_dropout}, {"--attention-dropout", x.attention_dropout}};
  for (const auto& [flag, p] : dropouts)
    if (!(p >= 0 && p < 1))
      out.push_back(fmt::format("{} is {}; give a probability from 0 to below 1", flag, p));
}

/// Parameters of one layer, in the type in which they are to be counted.
template <class Number>
Number layer_parameters(const gpt_config& x) {
  const auto C = Number(x.hidden), q = Number(x.heads) * Number(x.head_size);
  const auto qkv = Number(x.heads + 2 * x.groups) * Number(x.head_size);
  const auto fc1 = Number(x.fc1_width()), ffn = Number(x.ffn);
  const auto norm = C * Number(x.normalization == kernels::normalization::layer ? 2 : 1);
  Number n = 2 * norm + qkv * C + q * C + fc1 * C + ffn * C;
  if (x.linear_bias)
    n += qkv + C + fc1 + C;
  else if (x.qkv_bias)
    n += qkv;
  return n;
}

template <class Number>
Number count_parameters(const gpt_config& x) {
  const auto C = Number(x.hidden);
  Number n = Number(x.vocabulary) * C * Number(x.tied_embeddings ? 1 : 2);
  if (x.position == position_embedding::learned_absolute)
    n += Number(x.positions) * C;
  n += Number(x.layers) * layer_parameters<Number>(x);
  return n + C * Number(x.normalization == kernels::normalization::layer ? 2 : 1);
}

}  // namespace

std::int64_t padded_vocabulary_size(std::int64_t vocabulary,
                                    std::int64_t divisor,
                                    std::int64_t tensor_parallel) {
  const auto multiple = divisor * tensor_parallel;
  ensure(vocabulary >= 0 && divisor > 0 && tensor_parallel > 0,
         "VOCABULARY-1: a vocabulary is padded to a positive multiple");
  return (vocabulary + multiple - 1) / multiple * multiple;
}

std::vector<std::string> complaints(const gpt_config& config) {
  std::vector<std::string> out;
  if (complain_about_sizes(config, out)) {
    if (config.heads % config.groups != 0)
      out.push_back(
          fmt::format("--num-query-groups {} does not divide --num-attention-heads {}; "
                      "give {}",
                      config.groups,
                      config.heads,
                      nearest_divisor(config.heads, config.groups)));
    if (config.padded_vocabulary < config.vocabulary || config.padded_vocabulary > largest_size)
      out.push_back(
          fmt::format("the padded vocabulary has {} rows, but --vocab-size is {}; give at "
                      "least {}",
                      config.padded_vocabulary,
                      config.vocabulary,
                      config.vocabulary));
    if (const auto n = count_parameters<double>(config); n > largest_model)
      out.push_back(
          fmt::format("the model would have {:.3g} parameters; reduce --num-layers, "
                      "--hidden-size or --ffn-hidden-size to stay below {:.0g}",
                      n,
                      largest_model));
  }
  complain_about_positions(config, out);
  complain_about_numbers(config, out);
  return out;
}

std::string to_json(const gpt_config& config) {
  nlohmann::ordered_json out;
  visit_fields(config, [&]<class Field>(const char* name, const Field& field) {
    if constexpr (std::is_enum_v<Field>) {
      for (const auto& known : names_of(field))
        if (known.value == int(field))
          out[name] = known.name;
    } else {
      out[name] = field;
    }
  });
  return out.dump();
}

gpt_config gpt_config_from_json(const std::string& text) {
  auto in = nlohmann::json::parse(text, nullptr, false);
  if (!in.is_object())
    throw input_error("model configuration: should be a JSON object, but is '{}'",
                      text.substr(0, 60));
  gpt_config config;
  visit_fields(config, [&](const char* name, auto& field) {
    const auto found = in.find(name);
    if (found == in.end())
      throw input_error("model configuration: '{}' is missing", name);
    assign(name, field, *found);
    in.erase(found);
  });
  if (!in.empty())
    throw input_error(
        "model configuration: '{}' is not a field of a GPT; it was written by another version or "
        "for another kind of model",
        in.begin().key());
  return config;
}

std::int64_t parameter_count(const gpt_config& config) {
  return count_parameters<std::int64_t>(config);
}

double training_flops(const gpt_config& config, double samples) {
  const auto h = double(config.hidden), L = double(config.layers), S = double(config.sequence);
  const auto q = double(config.heads * config.head_size);
  const auto kv = double(config.groups * config.head_size);
  const double products = config.activation == kernels::activation::swiglu ? 3 : 2;
  const double per_token = 6 * h * double(config.ffn) * products * L
                           + 6 * L * (h * (q + 2 * kv) + q * h)
                           + 6 * h * double(config.padded_vocabulary);
  const double attention = 6 * L * q * S * S;  // two products, causal: half
  return samples * (S * per_token + attention);
}

}  // namespace troupe::runtime
