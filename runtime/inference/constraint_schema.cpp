#include "runtime/inference/constraint_schema.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/inference/constraint_expression.hpp"
#include "runtime/inference/constraint_json.hpp"
#include "runtime/inference/constraint_schema_reader.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace troupe::runtime {
namespace {

using part = constraint_grammar::part;
using json = nlohmann::ordered_json;

constexpr std::size_t largest_schema = 1 << 18;  // bytes
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

/// A schema as a part. Schemas are named by their JSON pointers in messages.
class schema_writer : schema_reader {
 public:
  schema_writer(constraint_grammar& to, const json& document)
      : schema_reader(document), to_(to), json_(to) {}

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

  part referred(const std::string& to, const std::string& from) {
    const auto& schema = resolved(to, from);
    const auto [found, fresh] = rules_.emplace(to, 0);
    if (fresh) {
      found->second = to_.rule();
      waiting_.push_back({&schema, to, found->second});
    }
    return found->second;
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
      if (key != "type" && !names(alone, key) && !is_keyword_of_type(key))
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
