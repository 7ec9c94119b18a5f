#include "runtime/inference/constraint_schema_reader.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/inference/constraint_grammar.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_compared = 1'000'000;  // values and properties; about a second

/// Types and their keywords.
const std::map<std::string, std::set<std::string>> keywords_of_types
    = {{"object", {"properties", "required", "additionalProperties"}},
       {"array", {"items", "minItems", "maxItems"}},
       {"string", {"minLength", "maxLength", "pattern", "format"}},
       {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
       {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
       {"boolean", {}},
       {"null", {}}};
schema_reader::json listed(const schema_reader::json& schema) {
  if (schema.is_object() && schema.contains("const"))
    return schema_reader::json::array({schema.at("const")});
  if (schema.is_object() && schema.contains("enum"))
    return schema.at("enum");
  return schema_reader::json::array();
}

/// Types of the values that are written for a schema, or of all that fit it; integers as numbers.
std::set<std::string> possible(const schema_reader::json& schema,
                               bool written,
                               const std::string& pointer) {
  std::set<std::string> out;
  if (schema.is_object() && (schema.contains("enum") || schema.contains("const")))
    for (const auto& one : listed(schema))
      out.insert(schema_reader::type_of(one));
  else if (schema.is_object() && (written || schema.contains("type")))
    out = schema_reader::types_of(schema, pointer);
  const bool unknown = out.empty();
  for (const auto& [type, keys] : keywords_of_types)
    if (unknown)
      out.insert(type);
  if (out.erase("integer") > 0)
    out.insert("number");
  return out;
}

std::set<std::string> required_in(const schema_reader::json& schema) {
  std::set<std::string> out;
  if (schema.contains("required") && schema.at("required").is_array())
    for (const auto& name : schema.at("required"))
      if (name.is_string())
        out.insert(name.get<std::string>());
  return out;
}

}  // namespace

void schema_reader::refuse(const std::string& pointer, const std::string& why) {
  throw input_error("cannot use the JSON schema at {}: {}", shortened(pointer, 120), why);
}

const schema_reader::json& schema_reader::resolved(const std::string& pointer,
                                                   const std::string& from) const {
  if (!pointer.starts_with("#"))
    refuse(from, "\"$ref\" begins with #: other documents are not read");
  try {
    return document_.at(json::json_pointer(pointer.substr(1)));
  } catch (const json::exception&) {
    refuse(from, fmt::format("there is nothing at \"$ref\" {}", shortened(pointer, 80)));
  }
}

const schema_reader::json& schema_reader::followed(const json& schema,
                                                   const std::string& pointer) const {
  const auto* out = &schema;
  for (int steps = 0; out->is_object() && out->contains("$ref") && steps < 16; ++steps)
    out = &resolved(text_at(*out, "$ref", pointer), pointer);
  return *out;
}

std::string schema_reader::text_at(const json& schema,
                                   const char* key,
                                   const std::string& pointer) {
  const auto& out = schema.at(key);
  if (!out.is_string())
    refuse(pointer, fmt::format("\"{}\" is not a string", key));
  return out.get<std::string>();
}
std::optional<std::int64_t> schema_reader::number_at(const json& schema,
                                                     const char* key,
                                                     const std::string& pointer) {
  if (!schema.contains(key))
    return {};
  const auto out = whole_number_in(nlohmann::json(schema.at(key)));
  if (!out)
    refuse(pointer, fmt::format("\"{}\" is not a whole number", key));
  return out;
}
std::pair<std::int32_t, std::int32_t> schema_reader::bounds_at(const json& schema,
                                                               const char* least,
                                                               const char* most,
                                                               const std::string& pointer) {
  constexpr std::int64_t unlimited = constraint_grammar::unlimited;
  const auto first = number_at(schema, least, pointer).value_or(0);
  const auto last = number_at(schema, most, pointer).value_or(unlimited);
  if (first < 0 || last < 0 || first > 1'000'000)
    refuse(pointer, fmt::format("\"{}\" and \"{}\" are 0 to 1,000,000", least, most));
  return {std::int32_t(first), std::int32_t(std::min(last, unlimited))};
}

bool schema_reader::is_keyword_of_type(const std::string& key) {
  return std::any_of(keywords_of_types.begin(), keywords_of_types.end(), [&](const auto& type) {
    return type.second.contains(key);
  });
}

std::string schema_reader::type_of(const json& value) {
  if (value.is_object())
    return "object";
  if (value.is_array())
    return "array";
  if (value.is_string())
    return "string";
  if (value.is_boolean())
    return "boolean";
  if (value.is_null())
    return "null";
  return value.is_number_integer() ? "integer" : "number";
}

std::set<std::string> schema_reader::types_of(const json& schema, const std::string& pointer) {
  std::set<std::string> out;
  if (!schema.contains("type")) {
    for (const auto& [type, keys] : keywords_of_types)
      if (type != "number" && std::any_of(keys.begin(), keys.end(), [&](const auto& x) {
            return schema.contains(x);
          }))
        out.insert(type == "integer" ? "number" : type);
    return out;
  }
  const auto& named = schema.at("type");
  for (const auto& type : named.is_array() ? named : json::array({named})) {
    if (!type.is_string() || !keywords_of_types.contains(type.get<std::string>()))
      refuse(pointer,
             "\"type\" is one or a list of object, array, string, integer, number, "
             "boolean and null");
    out.insert(type.get<std::string>());
  }
  if (out.empty())
    refuse(pointer, "\"type\" is an empty list");
  return out;
}

void schema_reader::compare(std::size_t more, const std::string& pointer) {
  compared_ += more;
  if (compared_ > most_compared)
    refuse(pointer, "\"oneOf\" has too many values to compare: use \"anyOf\"");
}

/// True for two lists without a common value.
bool schema_reader::differ(const json& a, const json& b, const std::string& pointer) {
  if (!a.is_array() || !b.is_array() || a.empty() || b.empty())
    return false;
  compare(a.size() * b.size(), pointer);
  return std::none_of(a.begin(), a.end(), [&](const json& x) {
    return std::any_of(
        b.begin(), b.end(), [&](const json& y) { return nlohmann::json(x) == nlohmann::json(y); });
  });
}

bool schema_reader::exclude(const json& first, const json& second, const std::string& pointer) {
  const auto& a = followed(first, pointer);
  const auto& b = followed(second, pointer);
  const auto values_a = listed(a), values_b = listed(b);
  compare(10 + values_a.size() + values_b.size(), pointer);
  std::set<std::string> both;
  for (const bool written : {true, false}) {
    const auto of_a = possible(a, written, pointer), of_b = possible(b, !written, pointer);
    std::set_intersection(
        of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), std::inserter(both, both.end()));
  }
  if (both.empty() || differ(values_a, values_b, pointer))
    return true;
  if (both != std::set<std::string>{"object"} || !a.contains("properties")
      || !b.contains("properties"))
    return false;
  const auto &of_a = a.at("properties"), &of_b = b.at("properties");
  const auto by_a = required_in(a), by_b = required_in(b);
  compare(of_a.size() + of_b.size() + by_a.size() + by_b.size(), pointer);
  for (const auto& [name, property] : of_a.items())
    if (by_a.contains(name) && by_b.contains(name) && of_b.contains(name)
        && differ(
            listed(followed(property, pointer)), listed(followed(of_b.at(name), pointer)), pointer))
      return true;
  return false;
}

}  // namespace troupe::runtime
