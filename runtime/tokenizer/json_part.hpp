// Access to the parts of a JSON file, with the path of each part in error messages.

#pragma once

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A part of a JSON value, which must outlive it, and its name in error messages. Accessors throw
/// input_error if a value is missing or has the wrong type.
struct json_part {
  const nlohmann::json& value;
  std::string where;

  [[noreturn]] void refuse(const std::string& what) const {
    throw input_error("{}: {}", where, what);
  }

  const nlohmann::json* find(const char* key) const {
    if (!value.is_object())
      refuse_kind("an object");
    const auto found = value.find(key);
    return found == value.end() || found->is_null() ? nullptr : &*found;
  }
  json_part at(const char* key) const {
    const auto* const found = find(key);
    if (!found)
      refuse(fmt::format("\"{}\" is missing", key));
    return {*found, fmt::format("{}, {}", where, key)};
  }
  std::optional<json_part> maybe(const char* key) const {
    return find(key) ? std::optional(at(key)) : std::nullopt;
  }
  std::string text() const {
    if (!value.is_string())
      refuse_kind("a string");
    return value.get<std::string>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    return find(key) ? at(key).text() : otherwise;
  }
  double number() const {
    if (!value.is_number())
      refuse_kind("a number");
    return value.get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const auto* const found = find(key);
    if (found && !found->is_boolean())
      refuse(fmt::format("\"{}\" must be true or false", key));
    return found ? found->get<bool>() : otherwise;
  }
  /// Returns a whole number from 0 to `most`.
  std::uint64_t whole(std::uint64_t most) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
      refuse(fmt::format("{} is not a whole number from 0 to {}", shown(), most));
    return value.get<std::uint64_t>();
  }
  std::vector<json_part> elements() const {
    if (!value.is_array())
      refuse_kind("an array");
    std::vector<json_part> out;
    for (std::size_t i = 0; i < value.size(); ++i)
      out.push_back({value[i], fmt::format("{} {}", where, i + 1)});
    return out;
  }
  std::string type() const { return at("type").text(); }
  std::string shown() const { return json_text_replacing(value).substr(0, 40); }

  [[noreturn]] void refuse_kind(const char* wanted) const {
    refuse(fmt::format("it is a JSON {}, not {}", value.type_name(), wanted));
  }
};

}  // namespace troupe::runtime
