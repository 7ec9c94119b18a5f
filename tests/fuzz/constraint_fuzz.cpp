// Fuzzes a regular expression or JSON schema, and the bytes of a text under it (CONSTRAINT-1).

#include "runtime/inference/constraint.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const std::shared_ptr<const token_pieces>& byte_pieces() {
  static const auto made = [] {
    std::vector<std::string> all;
    for (int byte = 0; byte < 256; ++byte)
      all.emplace_back(1, static_cast<char>(byte));
    all.insert(all.end(), {"{\"", "\": ", "\", \"", "\xC3\xA9", "\xA9", "true}", "0.5"});
    return std::make_shared<const token_pieces>(all, all);
  }();
  return made;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string schema
      = R"({"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer", "minimum": -5,
            "maximum": 120}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}},
            "required": ["v"], "additionalProperties": {"type": "boolean"}}}, "type": "array",
            "items": {"oneOf": [{"$ref": "#/$defs/n"}, {"enum": ["a", 1.5]}, {"type": "array"}]},
            "minItems": 1, "maxItems": 3})";
  const std::string strings
      = R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-\u00e9]+$"},
            "b": {"type": "string", "minLength": 1, "maxLength": 4}, "c": {"format": "date"},
            "d": {"type": ["number", "null"]}, "e": {"const": {"x": [true]}}}})";
  return {joined({"([a-z]+|\\d{2,3}(?:x|[^y])?)*", "abc12q"}),
          joined({"^\\s\\x41.|\\u{e9}(?<n>a?b*){0,2}$", " A\n"}),
          joined({schema, R"([{"v": 7, "next": null, "x": true}, 1.5])"}),
          joined({strings, R"({"a": "b", "d": -0.5e3})"})};
}

std::vector<std::string> fuzz::dictionary() {
  return {"{0,1000000}",
          "{3,}",
          "(?:",
          "(?<a>",
          "|)*",
          "[^",
          "\\u{10ffff}",
          "\\S",
          ".*",
          "\"$ref\": \"#\"",
          "\"items\": ",
          "\"anyOf\": [",
          "\"enum\": [",
          "\"required\": [",
          "\"maxLength\": 100000",
          "\"additionalProperties\": true",
          "\"type\": \"string\"",
          "\"properties\": {",
          std::string(section_mark)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 2);
  const auto text = parts[1].substr(0, 64);
  const auto walk = [&](std::shared_ptr<const token_constraint> by) {
    constraint_state at(std::move(by));
    for (const char byte : text) {
      const auto allowed = at.allowed({});
      const auto token = std::uint8_t(byte);
      const bool fits = (allowed[token / 64] >> (token % 64) & 1) != 0;
      const bool goes_on
          = std::any_of(allowed.begin(), allowed.end(), [](std::uint64_t x) { return x != 0; });
      fuzz::require(goes_on || at.may_end(), "a text can go on or end");
      fuzz::require(goes_on != at.must_end(), "a text that must end cannot go on");
      fuzz::require(at.advance(token) == fits, "allowed tokens, and no others, are taken");
      if (!fits)
        return;
    }
  };
  fuzz::accepted([&] { walk(token_constraint::of_expression(parts[0], byte_pieces())); });
  fuzz::accepted([&] { walk(token_constraint::of_schema(parts[0], byte_pieces())); });
  return 0;
}
