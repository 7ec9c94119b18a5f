#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/inference/constraint_characters.hpp"
#include "tests/support/constraint_walk.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <regex>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using json = nlohmann::json;

namespace {

std::shared_ptr<const token_constraint> schema_of(std::string_view text) {
  return token_constraint::of_schema(text, pieces_with(json_pieces));
}

bool fits_schema(std::string_view schema, std::string_view text) {
  return fate_of(schema_of(schema), text).fits;
}

bool is_of(const std::string& type, const json& x) {
  return (type == "object" && x.is_object()) || (type == "array" && x.is_array())
         || (type == "string" && x.is_string()) || (type == "boolean" && x.is_boolean())
         || (type == "null" && x.is_null()) || (type == "number" && x.is_number())
         || (type == "integer" && x.is_number_integer());
}

std::size_t characters_in(const std::string& text) {
  return std::size_t(std::count_if(
      text.begin(), text.end(), [](char byte) { return (std::uint8_t(byte) & 0xC0) != 0x80; }));
}

/// A validator, by the rules of JSON Schema.
bool is_valid(const json& schema, const json& x, const json& document) {
  if (schema.is_boolean())
    return schema.get<bool>();
  const auto valid = [&](const json& of) { return is_valid(of, x, document); };
  const auto fitting
      = [&](const json& list) { return std::count_if(list.begin(), list.end(), valid); };
  for (const auto& [key, of] : schema.items()) {
    bool good = true;
    if (key == "$ref") {
      good = valid(document.at(json::json_pointer(of.get<std::string>().substr(1))));
    } else if (key == "type") {
      const auto named = of.is_array() ? of : json::array({of});
      good = std::any_of(named.begin(), named.end(), [&](const json& t) { return is_of(t, x); });
    } else if (key == "enum") {
      good = std::find(of.begin(), of.end(), x) != of.end();
    } else if (key == "const") {
      good = of == x;
    } else if (key == "anyOf" || key == "allOf") {
      good = fitting(of) >= (key == "anyOf" ? 1 : std::int64_t(of.size()));
    } else if (key == "oneOf") {
      good = fitting(of) == 1;
    } else if (x.is_object() && key == "required") {
      good = std::all_of(of.begin(), of.end(), [&](const json& name) {
        return x.contains(name.get<std::string>());
      });
    } else if (x.is_object() && key == "properties") {
      for (const auto& [name, own] : of.items())
        good = good && (!x.contains(name) || is_valid(own, x.at(name), document));
    } else if (x.is_object() && key == "additionalProperties") {
      for (const auto& [name, value] : x.items())
        good = good
               && ((schema.contains("properties") && schema.at("properties").contains(name))
                   || is_valid(of, value, document));
    } else if (x.is_array() && key == "items") {
      good = std::all_of(
          x.begin(), x.end(), [&, &one = of](const json& y) { return is_valid(one, y, document); });
    } else if (x.is_array() && key == "minItems") {
      good = x.size() >= of;
    } else if (x.is_array() && key == "maxItems") {
      good = x.size() <= of;
    } else if (x.is_string() && key == "minLength") {
      good = characters_in(x) >= of;
    } else if (x.is_string() && key == "maxLength") {
      good = characters_in(x) <= of;
    } else if (x.is_string() && key == "pattern") {
      good = std::regex_search(x.get<std::string>(), std::regex(of.get<std::string>()));
    } else if (x.is_number() && key == "minimum") {
      good = x >= of;
    } else if (x.is_number() && key == "maximum") {
      good = x <= of;
    } else if (x.is_number() && key == "exclusiveMinimum") {
      good = x > of;
    } else if (x.is_number() && key == "exclusiveMaximum") {
      good = x < of;
    }
    if (!good)
      return false;
  }
  return true;
}

const std::vector<std::string> schemas = {
    "{}",
    R"({"type": "object"})",
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3}},
        "required": ["age"], "additionalProperties": false})",
    R"({"properties": {"a": {"enum": [1, "x", null, [1, {"b": 2}], "\u00e9\"\n"]}, "b": true},
        "required": ["a", "b"]})",
    R"({"type": "object", "properties": {"id": {"const": 7}, "ie": {"type": "null"}, "": false},
        "additionalProperties": {"type": "boolean"}})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
        "required": ["value", "next"]}}, "$ref": "#/$defs/node"})",
    R"({"type": "array", "items": {"$ref": "#"}, "maxItems": 2})",
    R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "number"}},
        "required": ["kind", "x"]}, {"$ref": "#/definitions/b"}, {"type": ["string", "integer"]}],
        "definitions": {"b": {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}},
        "required": ["kind"]}}})",
    R"({"type": "array", "minItems": 2, "maxItems": 4,
        "items": {"type": "integer", "minimum": -13, "exclusiveMaximum": 205}})",
    R"({"type": "array", "minItems": 1, "items": {"type": "integer", "exclusiveMinimum": -1000,
        "maximum": -7}})",
    R"({"type": "number", "minimum": 0, "maximum": 1})",
    R"({"type": "number", "maximum": 12})",
    R"({"type": "number", "minimum": 99})",
    R"({"type": ["null", "number", "boolean"]})",
    R"({"type": "string", "minLength": 2, "maxLength": 5})",
    R"({"type": "string", "pattern": "^[a-f\"\\\\]{1,4}$|x"})",
    R"({"type": "string", "pattern": "^[a-c]+@(org|com)$"})",
    R"({"type": "array", "items": {"allOf": [{"type": "string", "format": "ipv4"}]},
        "minItems": 1, "title": "addresses", "description": "x", "default": []})",
    R"({"enum": ["a", 1, 2.5, true], "type": ["string", "number"]})"};

}  // namespace

TEST_CASE("every text that a schema allows parses and fits the schema", "[inference][constraint]") {
  std::mt19937_64 random(11);
  for (const auto& text : schemas) {
    INFO(text);
    const auto schema = json_value(text);
    const auto by = schema_of(text);
    std::size_t longest = 0;
    for (int walk = 0; walk < 40; ++walk) {
      const auto found = random_text(by, random, 4 + random() % 60);
      INFO(found);
      const auto value = json_value_or_discarded(found);
      REQUIRE_FALSE(value.is_discarded());
      REQUIRE(is_valid(schema, value, schema));
      longest = std::max(longest, found.size());
    }
    CHECK(longest > 1);
  }
}

TEST_CASE("texts that fit a schema are allowed, and others are not", "[inference][constraint]") {
  const auto& person = schemas[2];
  CHECK(fits_schema(person, R"({"name": "Ann", "age": 7})"));
  CHECK(fits_schema(person, R"({"name":"\u00e9\ud83d\ude00\n\/","age":7,"tags":["a","bcd"]})"));
  CHECK(fits_schema(person, "{\n  \"age\": 7,\n  \"tags\": [\n    \"a\"\n  ]\n}"));
  CHECK(fits_schema(person, R"({"age": -120, "tags": []})"));
  CHECK_FALSE(fits_schema(person, R"({"name": "Ann"})"));
  CHECK_FALSE(fits_schema(person, R"({"age": 7, "name": "Ann"})"));  // the schema's order
  CHECK_FALSE(fits_schema(person, R"({"age": 7.5})"));
  CHECK_FALSE(fits_schema(person, R"({"age": 07})"));
  CHECK_FALSE(fits_schema(person, R"({"age": 7, "more": 1})"));
  CHECK_FALSE(fits_schema(person, R"({"age": 7, "tags": ["abcd"]})"));
  CHECK_FALSE(fits_schema(person, R"({"age": 7, "tags": ["a","b","c","d"]})"));
  CHECK_FALSE(fits_schema(person, "{\"name\": \"a\nb\", \"age\": 7}"));
  CHECK_FALSE(fits_schema(person, R"({"name": "\ud83d", "age": 7})"));
  CHECK_FALSE(fits_schema(person, R"({"name": "\ude00", "age": 7})"));
  CHECK_FALSE(fits_schema(person, "{  \"age\": 7}"));

  const auto& extra = schemas[4];
  CHECK(fits_schema(extra, R"({"id": 7, "ids": true, "i": false, "x": true})"));
  CHECK(fits_schema(extra, "{}"));
  CHECK_FALSE(fits_schema(extra, R"({"ids": true, "id": true})"));
  CHECK_FALSE(fits_schema(extra, R"({"": true})"));

  CHECK(
      fits_schema(R"({"type":"object","properties":{"a":{},"b":{},"c":{}}})", R"({"a":1,"c":2})"));
  CHECK(fits_schema(R"({"type":"object","properties":{"a":{},"b":{},"c":{}}})", R"({"c":[{}]})"));
  CHECK_FALSE(fits_schema(R"({"type":"object","properties":{"a":{}}})", R"({"a":1,})"));
  CHECK_FALSE(fits_schema("{}", "[1,]"));
  CHECK_FALSE(fits_schema("{}", "1."));
  CHECK_FALSE(fits_schema("{}", " 1"));
  CHECK(fits_schema("{}", R"([-0.5e-3, {"a": [null, true]}, "\\"])"));
  for (const auto* good : {"-13", "-9", "0", "9", "10", "99", "100", "204"})
    CHECK(fits_schema(schemas[8], std::string("[1, ") + good + "]"));
  for (const auto* bad : {"-14", "205", "1000", "00", "-0"})
    CHECK_FALSE(fits_schema(schemas[8], std::string("[1, ") + bad + "]"));
  CHECK(fits_schema(R"({"format": "date"})", "\"2024-02-28\""));
  CHECK_FALSE(fits_schema(R"({"format": "date"})", "\"2024-02-30\""));
  CHECK_FALSE(fits_schema(R"({"format": "date"})", "\"2024-04-31\""));
  CHECK(fits_schema(R"({"format": "date-time"})", "\"2026-12-31T23:59:59.5Z\""));
  CHECK(fits_schema(R"({"format": "uuid"})", "\"123e4567-e89b-12d3-a456-426614174000\""));
  CHECK(fits_schema(R"({"format": "email"})", "\"a.b@c.org\""));
  CHECK_FALSE(fits_schema(R"({"format": "ipv4"})", "\"1.2.3.256\""));
}

TEST_CASE("any object of JSON is an object", "[inference][constraint]") {
  const auto by = token_constraint::of_any_object(pieces_with(json_pieces));
  CHECK(fate_of(by, R"({"a": [1, {"b": null}]})").fits);
  CHECK(fate_of(by, "[").allowed == 0);
  std::mt19937_64 random(5);
  for (int walk = 0; walk < 100; ++walk) {
    const auto found = random_text(by, random, random() % 300);
    INFO(found);
    REQUIRE(json_value_or_discarded(found).is_object());
  }
}

TEST_CASE("nesting is bounded, and a text can end at the bound", "[inference][constraint]") {
  constraint_state at(schema_of("{}"));
  std::size_t depth = 0;
  while (at.advance('['))
    ++depth;
  CHECK(depth >= 60);
  CHECK(depth < 400);
  for (std::size_t i = 0; i < depth; ++i)
    REQUIRE(at.advance(']'));
  CHECK(at.must_end());
}

TEST_CASE("unsupported and contradictory schemas are refused by name", "[inference][constraint]") {
  for (const auto& [schema, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"patternProperties": {}})", "\"patternProperties\" is not supported"},
           {R"({"properties": {"a": {"not": {}}}})",
            "at #/properties/a: the keyword \"not\" is not supported"},
           {R"({"type": "array", "uniqueItems": true})", "\"uniqueItems\""},
           {R"({"anyOf": [{}], "properties": {}})", "\"anyOf\" beside \"properties\""},
           {R"({"$ref": "#/x"})", "there is nothing at \"$ref\" #/x"},
           {R"({"$ref": "http://a/b"})", "other documents are not read"},
           {R"({"$ref": "#x"})", "there is nothing at"},
           {R"({"$ref": 3})", "\"$ref\" is not a string"},
           {R"({"$ref": "#"})", "no text fits"},
           {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
            "no text fits"},
           {R"({"allOf": [{}, {}]})", "\"allOf\" of several"},
           {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "both schemas 0 and 1"},
           {R"({"oneOf": [{"type": "object"}, {}]})", "both schemas 0 and 1"},
           {R"({"oneOf": [{"properties": {}}, {"type": "string"}]})", "both schemas 0 and 1"},
           {R"({"type": "text"})", "\"type\" is one or a list of"},
           {R"({"type": []})", "empty list"},
           {R"({"enum": []})", "is not a list with an element"},
           {R"({"enum": ["a"], "type": "integer"})", "no text fits"},
           {R"({"type": "array", "minItems": 3, "maxItems": 2})", "no text fits"},
           {R"({"type": "array", "minItems": 1.5})", "\"minItems\" is not a whole number"},
           {R"({"type": "array", "minItems": -1})", "0 to 1,000,000"},
           {R"({"type": "string", "minLength": 10000000000})", "0 to 1,000,000"},
           {R"x({"type": "string", "pattern": "(?=a)"})x", "assertions"},
           {R"({"type": "string", "pattern": "a", "maxLength": 3})", "only one of"},
           {R"({"type": "string", "format": "iri"})", "the format \"iri\" is not supported"},
           {R"({"type": "integer", "minimum": 3, "maximum": 2})", "no text fits"},
           {R"({"type": "integer", "minimum": 1e300})", "not a whole number"},
           {R"({"type": "integer", "maximum": -9223372036854775808})", "up to 18 digits"},
           {R"({"type": "number", "minimum": -1})", "negative bounds"},
           {R"({"type": "number", "exclusiveMinimum": 0})", "exclusive bounds"},
           {R"({"properties": {}, "required": ["a"]})", "\"required\" has \"a\""},
           {R"({"properties": []})", "\"properties\" is not an object"},
           {"[]", "a schema is an object"},
           {"{", "the JSON schema"},
           {R"({"type": "object", "type": "array"})", "type"}}) {
    INFO(schema);
    CHECK_THROWS_WITH(schema_of(schema), ContainsSubstring(message));
  }
}

TEST_CASE("hostile schemas take bounded memory and time", "[inference][constraint]") {
  std::string deep;
  for (int i = 0; i < 100'000; ++i)
    deep += R"({"items":)";
  CHECK_THROWS_AS(schema_of(deep), input_error);
  json wide = {{"type", "object"}, {"properties", json::object()}};
  for (int i = 0; i < 100'000; ++i)
    wide["properties"][fmt::format("property number {}", i)] = {{"type", "string"}};
  CHECK_THROWS_AS(schema_of(json_text(wide)), input_error);
  // A chain of references is followed without recursion.
  json chain = {{"$ref", "#/$defs/0"}, {"$defs", json::object()}};
  for (int i = 0; i < 5000; ++i)
    chain["$defs"][std::to_string(i)]
        = i < 4999 ? json{{"$ref", fmt::format("#/$defs/{}", i + 1)}} : json{{"type", "null"}};
  CHECK(fits_schema(json_text(chain), "null"));
  // Every property may be left out, and bounds are large.
  json loose = {{"type", "object"}, {"properties", json::object()}};
  for (int i = 0; i < 1000; ++i)
    loose["properties"][fmt::format("p{}", i)]
        = {{"type", "array"}, {"maxItems", 1'000'000'000'000}, {"items", {{"maxLength", 1000000}}}};
  CHECK(fits_schema(json_text(loose), R"({"p7":["a"],"p998":[]})"));
  // Pairs of schemas and of values are not compared without a bound.
  json many = {{"oneOf", json::array()}};
  for (int i = 0; i < 5000; ++i)
    many["oneOf"].push_back({{"const", i}});
  CHECK_THROWS_WITH(schema_of(json_text(many)), ContainsSubstring("too many values to compare"));
  json values = {{"oneOf", json::array({{{"enum", json::array()}}, {{"enum", json::array()}}})}};
  for (int i = 0; i < 4000; ++i)
    values["oneOf"][std::size_t(i % 2)]["enum"].push_back(i);
  CHECK_THROWS_WITH(schema_of(json_text(values)), ContainsSubstring("too many values to compare"));
  // Names with equal ends have few parts, which are asked for many times.
  json ends = {{"type", "object"}, {"properties", json::object()}, {"additionalProperties", true}};
  for (int i = 0; i < 480; ++i)
    ends["properties"][utf8_of(char32_t(0x100 + i)) + std::string(490, 'a')] = {{"type", "null"}};
  CHECK_THROWS_WITH(schema_of(json_text(ends)), ContainsSubstring("repeats its parts too often"));
}
