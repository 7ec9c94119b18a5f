// The JSON of a family's settings, made from their rows: the names of the members, and of the
// values of enumerations. A family's own enumeration E has a function `names_of(E)` beside it.

#pragma once

#include "kernels/op/kinds.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/setting.hpp"

#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// A value of an enumeration in JSON.
struct enum_name {
  std::string_view name;
  int value;
};

namespace config_json {

constexpr std::int64_t largest_number = std::numeric_limits<std::int32_t>::max();

inline constexpr enum_name normalization_names[]
    = {{"layer", int(kernels::normalization::layer)}, {"rms", int(kernels::normalization::rms)}};
inline constexpr auto activation_names = [] {
  std::array<enum_name, std::size(kernels::every_activation)> out{};
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = {text(kernels::every_activation[i]), int(kernels::every_activation[i])};
  return out;
}();

constexpr std::span<const enum_name> names_of(kernels::normalization) {
  return normalization_names;
}
constexpr std::span<const enum_name> names_of(kernels::activation) {
  return activation_names;
}

[[noreturn]] inline void refuse(const char* field,
                                std::string_view expected,
                                const nlohmann::json& found) {
  throw input_error("model configuration: '{}' should be {}, but is {}",
                    field,
                    expected,
                    json_text_replacing(found, -1, json_characters::ascii));
}

inline void assign(const char* field, std::int64_t& to, const nlohmann::json& from) {
  if (!from.is_number_integer()
      || (from.is_number_unsigned() && from.get<std::uint64_t>() > std::uint64_t(largest_number)))
    refuse(field, fmt::format("a whole number up to {}", largest_number), from);
  to = from.get<std::int64_t>();
}

inline void assign(const char* field, double& to, const nlohmann::json& from) {
  if (!from.is_number())
    refuse(field, "a number", from);
  to = from.get<double>();
}

inline void assign(const char* field, bool& to, const nlohmann::json& from) {
  if (!from.is_boolean())
    refuse(field, "true or false", from);
  to = from.get<bool>();
}

inline void assign(const char* field, std::string& to, const nlohmann::json& from) {
  if (!from.is_string())
    refuse(field, "a text", from);
  to = from.get<std::string>();
}

template <class Value>
void assign(const char* field, std::vector<Value>& to, const nlohmann::json& from) {
  if (!from.is_array())
    refuse(field, "a list", from);
  to.clear();
  for (const auto& x : from)
    assign(field, to.emplace_back(), x);
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

template <class Struct>
nlohmann::ordered_json written(const Struct& from) {
  nlohmann::ordered_json out;
  for_each_field<Struct>([&](const auto& row) {
    const auto& field = from.*row.member;
    using value = std::remove_cvref_t<decltype(field)>;
    if (row.left_out && field == Struct().*row.member)
      return;
    if constexpr (has_fields<value>) {
      out[row.key] = written(field);
    } else if constexpr (std::is_enum_v<value>) {
      for (const auto& known : names_of(field))
        if (known.value == int(field))
          out[row.key] = known.name;
    } else {
      out[row.key] = field;
    }
  });
  return out;
}

/// `above`: the path of the object, "experts.". `title`: of the family, "a GPT".
template <class Struct>
void read_fields(Struct& to, nlohmann::json in, const std::string& above, std::string_view title) {
  for_each_field<Struct>([&](const auto& row) {
    auto& field = to.*row.member;
    const auto path = above + row.key;
    const auto found = in.find(row.key);
    if (found == in.end()) {
      if (!row.optional)
        throw input_error("model configuration: '{}' is missing", path);
      return;
    }
    if constexpr (has_fields<std::remove_cvref_t<decltype(field)>>) {
      if (!found->is_object())
        refuse(path.c_str(), "an object", *found);
      read_fields(field, *found, path + ".", title);
    } else {
      assign(path.c_str(), field, *found);
    }
    in.erase(found);
  });
  if (!in.empty())
    throw input_error(
        "model configuration: '{}' is not a field of {}; it was written by another version or "
        "for another kind of model",
        above + in.begin().key(),
        title);
}

/// Erases the settings of training alone from the JSON of a Struct.
template <class Struct>
void erase_training(nlohmann::json& from) {
  for_each_field<Struct>([&](const auto& row) {
    using value = std::remove_cvref_t<decltype(Struct().*row.member)>;
    if (row.training)
      from.erase(row.key);
    else if constexpr (has_fields<value>)
      if (const auto found = from.find(row.key); found != from.end())
        erase_training<value>(*found);
  });
}

}  // namespace config_json

/// With the names of the fields.
template <class Struct>
std::string config_to_json(const Struct& config) {
  return json_text(config_json::written(config));
}

/// Throws input_error for a field that is missing, unknown or of a wrong type. `title`: of the
/// family, "a GPT".
template <class Struct>
Struct config_from_json(const std::string& text, std::string_view title) {
  auto in = json_value_or_discarded(text);
  if (!in.is_object())
    throw input_error("model configuration: should be a JSON object, but is '{}'",
                      text.substr(0, 60));
  Struct config;
  config_json::read_fields(config, std::move(in), "", title);
  return config;
}

}  // namespace troupe::runtime
