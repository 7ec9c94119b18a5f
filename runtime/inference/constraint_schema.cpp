#include "runtime/inference/constraint_schema.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/inference/constraint_expression.hpp"
#include "runtime/inference/constraint_json.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace troupe::runtime {
namespace {

using part = constraint_grammar::part;
using json = nlohmann::ordered_json;

constexpr std::size_t largest_schema = 1 << 20;  // bytes
constexpr int deepest_schema = 64;
constexpr std::size_t longest_name = 500;  // bytes of a property

constexpr const char* notes[] = {"title",
                                 "description",
                                 "default",
                                 "examples",
                                 "deprecated",
                                 "readOnly",
                                 "writeOnly",
                                 "$schema",
                                 "$id",
                                 "$comment",
                                 "$defs",
                                 "definitions"};
constexpr const char* alone[] = {"$ref", "enum", "const", "anyOf", "oneOf", "allOf"};
/// Types and their keywords.
const std::map<std::string, std::set<std::string>> types
    = {{"object", {"properties", "required", "additionalProperties"}},
       {"array", {"items", "minItems", "maxItems"}},
       {"string", {"minLength", "maxLength", "pattern", "format"}},
       {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
       {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
       {"boolean", {}},
       {"null", {}}};

#define DATE_OF_FORMAT                                                                             \
  "[1-9][0-9]{3}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02]" \
  ")-31)"
#define TIME_OF_FORMAT \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE_OF_FORMAT "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
const std::map<std::string, const char*> formats
    = {{"date", DATE_OF_FORMAT},
       {"time", TIME_OF_FORMAT},
       {"date-time", DATE_OF_FORMAT "T" TIME_OF_FORMAT},
       {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
       {"ipv4", BYTE_OF_FORMAT "(\\." BYTE_OF_FORMAT "){3}"},
       {"email", "[a-zA-Z0-9_%+-]+(\\.[a-zA-Z0-9_%+-]+)*@([a-zA-Z0-9-]+\\.)+[a-zA-Z]{2,}"}};
#undef DATE_OF_FORMAT
#undef TIME_OF_FORMAT
#undef BYTE_OF_FORMAT

template <class Names>
bool names(const Names& all, const std::string& key) {
  return std::find(std::begin(all), std::end(all), key) != std::end(all);
}

std::string type_of(const json& value) {
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

/// A schema as a part. Schemas are named by their JSON pointers in messages.
class schema_writer {
 public:
  schema_writer(constraint_grammar& to, const json& document)
      : to_(to), json_(to), document_(document) {}

  part whole() {
    const auto out = referred("#", "#");
    while (!waiting_.empty()) {  // not recursive: chains of references may be long
      const auto [schema, pointer, rule] = waiting_.back();
      waiting_.pop_back();
      to_.define(rule, value(*schema, pointer));
    }
    return out;
  }

 private:
  struct waiting {
    const json* schema;
    std::string pointer;
    part rule;
  };

  [[noreturn]] static void refuse(const std::string& pointer, const std::string& why) {
    throw input_error("cannot use the JSON schema at {}: {}", shortened(pointer, 120), why);
  }

  const json& resolved(const std::string& pointer, const std::string& from) const {
    if (!pointer.starts_with("#"))
      refuse(from, "\"$ref\" begins with #: other documents are not read");
    try {
      return document_.at(json::json_pointer(pointer.substr(1)));
    } catch (const json::exception&) {
      refuse(from, fmt::format("there is nothing at \"$ref\" {}", shortened(pointer, 80)));
    }
  }
  const json& followed(const json& schema, const std::string& pointer) const {
    const auto* out = &schema;
    for (int steps = 0; out->is_object() && out->contains("$ref") && steps < 16; ++steps)
      out = &resolved(text_at(*out, "$ref", pointer), pointer);
    return *out;
  }

  part referred(const std::string& to, const std::string& from) {
    const auto& schema = resolved(to, from);
    const auto [found, fresh] = rules_.emplace(to, 0);
    if (fresh) {
      found->second = to_.rule();
      waiting_.push_back({&schema, to, found->second});
    }
    return found->second;
  }

  static std::string text_at(const json& schema, const char* key, const std::string& pointer) {
    const auto& out = schema.at(key);
    if (!out.is_string())
      refuse(pointer, fmt::format("\"{}\" is not a string", key));
    return out.get<std::string>();
  }
  static std::optional<std::int64_t> number_at(const json& schema,
                                               const char* key,
                                               const std::string& pointer) {
    if (!schema.contains(key))
      return {};
    const auto out = whole_number_in(nlohmann::json(schema.at(key)));
    if (!out)
      refuse(pointer, fmt::format("\"{}\" is not a whole number", key));
    return out;
  }
  static std::pair<std::int32_t, std::int32_t> bounds_at(const json& schema,
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

  part value(const json& schema, const std::string& pointer) {
    if (schema.is_boolean())
      return schema.get<bool>() ? json_.any() : to_.nothing();
    if (!schema.is_object())
      refuse(pointer, "a schema is an object, true or false");
    std::vector<std::string> decisive;
    for (const auto& [key, unused] : schema.items()) {
      if (names(notes, key))
        continue;
      if (key != "type" && !names(alone, key)
          && std::none_of(types.begin(), types.end(), [&, &name = key](const auto& type) {
               return type.second.contains(name);
             }))
        refuse(pointer, fmt::format("the keyword \"{}\" is not supported", shortened(key, 60)));
      decisive.push_back(key);
    }
    for (const auto* key : alone)
      if (schema.contains(key)) {
        const bool typed = (key == std::string("enum") || key == std::string("const"))
                           && schema.contains("type");
        if (decisive.size() > (typed ? 2U : 1U))
          refuse(pointer,
                 fmt::format("\"{}\" beside \"{}\" is not supported",
                             key,
                             shortened(decisive.front() == key ? decisive[1] : decisive[0], 60)));
        return special(schema, key, pointer);
      }
    std::vector<part> all;
    for (const auto& type : types_of(schema, pointer))
      all.push_back(typed(schema, type, pointer));
    return all.empty() ? json_.any() : to_.either(std::move(all));
  }

  /// Empty: all types.
  static std::set<std::string> types_of(const json& schema, const std::string& pointer) {
    std::set<std::string> out;
    if (!schema.contains("type")) {
      for (const auto& [type, keys] : types)
        if (type != "number" && std::any_of(keys.begin(), keys.end(), [&](const auto& x) {
              return schema.contains(x);
            }))
          out.insert(type == "integer" ? "number" : type);
      return out;
    }
    const auto& named = schema.at("type");
    for (const auto& type : named.is_array() ? named : json::array({named})) {
      if (!type.is_string() || !types.contains(type.get<std::string>()))
        refuse(pointer,
               "\"type\" is one or a list of object, array, string, integer, number, "
               "boolean and null");
      out.insert(type.get<std::string>());
    }
    if (out.empty())
      refuse(pointer, "\"type\" is an empty list");
    return out;
  }

  part special(const json& schema, const std::string& key, const std::string& pointer) {
    const auto& of = schema.at(key);
    if (key == "$ref")
      return referred(text_at(schema, "$ref", pointer), pointer);
    if (key == "const")
      return one_of(json::array({of}), schema, pointer);
    if (!of.is_array() || of.empty())
      refuse(pointer, fmt::format("\"{}\" is not a list with an element", key));
    if (key == "enum")
      return one_of(of, schema, pointer);
    if (key == "allOf" && of.size() > 1)
      refuse(pointer, "\"allOf\" of several schemas is not supported");
    std::vector<part> all;
    for (std::size_t i = 0; i < of.size(); ++i) {
      for (std::size_t j = 0; key == "oneOf" && j < i; ++j)
        if (!exclude(of[i], of[j], pointer))
          refuse(pointer,
                 fmt::format("a value may fit both schemas {} and {} of \"oneOf\": use \"anyOf\", "
                             "or require a property that has another \"const\" in each",
                             j,
                             i));
      all.push_back(value(of[i], fmt::format("{}/{}/{}", pointer, key, i)));
    }
    return to_.either(std::move(all));
  }

  part one_of(const json& values, const json& schema, const std::string& pointer) {
    const auto kinds = types_of(schema, pointer);
    std::vector<part> all;
    for (const auto& one : values) {
      const auto type = type_of(one);
      if (kinds.empty() || kinds.contains(type) || (type == "integer" && kinds.contains("number")))
        all.push_back(to_.literal(json_text(one)));
    }
    return to_.either(std::move(all));
  }

  /// Types of a schema's values, integers as numbers.
  std::set<std::string> possible(const json& schema, const std::string& pointer) const {
    std::set<std::string> out;
    if (schema.is_object())
      out = types_of(schema, pointer);
    if (schema.is_object() && (schema.contains("enum") || schema.contains("const"))) {
      out.clear();
      for (const auto& one : listed(schema))
        out.insert(type_of(one));
    }
    const bool unknown = out.empty();
    for (const auto& [type, keys] : types)
      if (unknown)
        out.insert(type);
    if (out.erase("integer") > 0)
      out.insert("number");
    return out;
  }
  static json listed(const json& schema) {
    if (schema.is_object() && schema.contains("const"))
      return json::array({schema.at("const")});
    if (schema.is_object() && schema.contains("enum"))
      return schema.at("enum");
    return json::array();
  }
  static bool differ(const json& a, const json& b) {  // lists of values
    return a.is_array() && b.is_array() && !a.empty() && !b.empty()
           && std::none_of(a.begin(), a.end(), [&](const json& x) {
                return std::any_of(b.begin(), b.end(), [&](const json& y) {
                  return nlohmann::json(x) == nlohmann::json(y);
                });
              });
  }
  /// True only if no value fits both.
  bool exclude(const json& first, const json& second, const std::string& pointer) const {
    const auto& a = followed(first, pointer);
    const auto& b = followed(second, pointer);
    const auto of_a = possible(a, pointer), of_b = possible(b, pointer);
    std::vector<std::string> both;
    std::set_intersection(
        of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), std::back_inserter(both));
    if (both.empty() || differ(listed(a), listed(b)))
      return true;
    if (both != std::vector<std::string>{"object"} || !a.contains("properties")
        || !b.contains("properties"))
      return false;
    const auto requires_it = [](const json& schema, const std::string& name) {
      return schema.contains("required") && schema.at("required").is_array()
             && names(schema.at("required"), name);
    };
    for (const auto& [name, property] : a.at("properties").items())
      if (requires_it(a, name) && requires_it(b, name) && b.at("properties").contains(name)
          && differ(listed(followed(property, pointer)),
                    listed(followed(b.at("properties").at(name), pointer))))
        return true;
    return false;
  }

  part typed(const json& schema, const std::string& type, const std::string& pointer) {
    if (type == "object")
      return object(schema, pointer);
    if (type == "array") {
      const auto [least, most] = bounds_at(schema, "minItems", "maxItems", pointer);
      const auto item
          = schema.contains("items") ? value(schema.at("items"), pointer + "/items") : json_.any();
      return json_.array_of(item, least, most);
    }
    if (type == "string")
      return string(schema, pointer);
    if (type == "integer" || type == "number")
      return number(schema, type == "integer", pointer);
    if (type == "boolean")
      return to_.either({to_.literal("true"), to_.literal("false")});
    return to_.literal("null");
  }

  part object(const json& schema, const std::string& pointer) {
    static const auto none = json::object();
    const auto& properties = schema.contains("properties") ? schema.at("properties") : none;
    if (!properties.is_object())
      refuse(pointer, "\"properties\" is not an object");
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema.at("required").is_array())
        refuse(pointer, "\"required\" is not a list");
      for (const auto& name : schema.at("required")) {
        if (!name.is_string() || !properties.contains(name.get<std::string>()))
          refuse(pointer,
                 fmt::format("\"required\" has {}, which is not in \"properties\"",
                             shown(nlohmann::json(name))));
        required.insert(name.get<std::string>());
      }
    }
    std::vector<json_parts::property> members;
    std::vector<std::string> own;
    for (const auto& [name, property] : properties.items()) {
      if (name.size() > longest_name)
        refuse(pointer, fmt::format("a property's name is longer than {} bytes", longest_name));
      own.push_back(name);
      const auto key = to_.literal(json_text(json(name)));
      const auto content = value(property, fmt::format("{}/properties/{}", pointer, name));
      members.push_back({json_.member(key, content), required.contains(name)});
    }
    std::optional<part> more;
    if (schema.contains("additionalProperties") ? schema.at("additionalProperties") != false
                                                : properties.empty()) {
      const auto content = schema.contains("additionalProperties") ? value(
                               schema.at("additionalProperties"), pointer + "/additionalProperties")
                                                                   : json_.any();
      more = json_.member(own.empty() ? json_.string() : json_.key_except(own), content);
    }
    return json_.object_of(members, more);
  }

  part string(const json& schema, const std::string& pointer) {
    const auto [least, most] = bounds_at(schema, "minLength", "maxLength", pointer);
    const bool bounded = schema.contains("minLength") || schema.contains("maxLength");
    const bool by_pattern = schema.contains("pattern"), by_format = schema.contains("format");
    if (int(bounded) + int(by_pattern) + int(by_format) > 1)
      refuse(pointer,
             "only one of \"pattern\", \"format\" and bounds of the length is supported; put the "
             "bounds into the pattern");
    if (by_format) {
      const auto found = formats.find(text_at(schema, "format", pointer));
      if (found == formats.end())
        refuse(pointer,
               fmt::format("the format {} is not supported: use \"pattern\"",
                           shown(nlohmann::json(schema.at("format")))));
      return json_.quoted(
          expression_part(to_, found->second, expression_scope::whole, spelling::json));
    }
    if (by_pattern)
      return json_.quoted(expression_part(
          to_, text_at(schema, "pattern", pointer), expression_scope::found, spelling::json));
    return json_.quoted(to_.repeat(json_character(to_), least, most));
  }

  part number(const json& schema, bool integer, const std::string& pointer) {
    auto least = number_at(schema, "minimum", pointer),
         most = number_at(schema, "maximum", pointer);
    const auto above = number_at(schema, "exclusiveMinimum", pointer),
               below = number_at(schema, "exclusiveMaximum", pointer);
    constexpr std::int64_t far = 1'000'000'000'000'000'000;
    for (const auto& bound : {least, most, above, below})
      if (bound && (*bound > far || *bound < -far))
        refuse(pointer, "the bounds of a number have up to 18 digits");
    if (integer) {
      if (above)
        least = std::max(least.value_or(*above + 1), *above + 1);
      if (below)
        most = std::min(most.value_or(*below - 1), *below - 1);
      return json_.integer(least, most);
    }
    if (above || below)
      refuse(pointer, "exclusive bounds are supported for \"type\": \"integer\" only");
    if (least.value_or(0) < 0 || most.value_or(0) < 0)
      refuse(pointer, "negative bounds are supported for \"type\": \"integer\" only");
    return json_.number(least, most);
  }

  constraint_grammar& to_;
  json_parts json_;
  const json& document_;
  std::map<std::string, part> rules_;  ///< by pointer
  std::vector<waiting> waiting_;
};

}  // namespace

part schema_part(constraint_grammar& to, std::string_view schema) {
  parse_json(schema, "the JSON schema", {.bytes = largest_schema, .depth = deepest_schema});
  const auto document = ordered_json_value(schema);
  return schema_writer(to, document).whole();
}

}  // namespace troupe::runtime
