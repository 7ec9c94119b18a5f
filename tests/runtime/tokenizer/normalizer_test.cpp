#include "runtime/tokenizer/normalizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/added_tokens.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string by(normalizer::step step, std::string_view text) {
  return normalizer({std::move(step)}).apply(text);
}

/// The text between added tokens in brackets, and the ids of added tokens.
std::string split(const added_tokens& tokens, std::string_view text, bool with_special = true) {
  std::string out;
  tokens.split(
      text,
      with_special,
      [&](std::string_view x) { out.append("[").append(x).append("]"); },
      [&](std::int32_t id) { out += std::to_string(id); });
  return out;
}
std::string split(const added_token& token, std::string_view text, bool with_special = true) {
  return split(added_tokens({token}), text, with_special);
}

std::string utf8_of(char32_t c) {
  if (c < 0x80)
    return {char(c)};
  if (c < 0x800)
    return {char(0xC0 | c >> 6), char(0x80 | (c & 63))};
  if (c < 0x10000)
    return {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
  return {char(0xF0 | c >> 18),
          char(0x80 | (c >> 12 & 63)),
          char(0x80 | (c >> 6 & 63)),
          char(0x80 | (c & 63))};
}

bool matches(const char* pattern, std::string_view text) {
  const expression what(pattern);
  return expression_search(what).find(text, 0).has_value();
}

}  // namespace

TEST_CASE("NORMAL-1: a normalizer is given valid UTF-8", "[tokenizer]") {
  CHECK_BREAKS("NORMAL-1", by(lowercase(), "\xFF"));
}

TEST_CASE("normal forms equal Unicode's", "[tokenizer]") {
  CHECK(by(unicode_form::nfc, "e\u0301") == "\u00e9");
  CHECK(by(unicode_form::nfd, "\u00e9") == "e\u0301");
  CHECK(by(unicode_form::nfkc, "\ufb01 e\u0301\u00b2") == "fi \u00e92");
  CHECK(by(unicode_form::nfkd, "\u212b") == "A\u030a");
  CHECK(by(unicode_form::nfc, "\ufb01") == "\ufb01");
}

TEST_CASE("NORMAL-2: every character has its normal forms, which are their own normal forms",
          "[tokenizer][unthreaded]") {
  const normalizer nfc({unicode_form::nfc}), nfd({unicode_form::nfd}), nfkc({unicode_form::nfkc}),
      nfkd({unicode_form::nfkd});
  std::string all;
  for (char32_t c = 1; c < 0x110000; ++c)
    if (c < 0xD800 || c > 0xDFFF) {
      all += utf8_of(c);
      all += ' ';
    }
  const auto canonical = nfd.apply(all), compatible = nfkd.apply(all);
  CHECK((nfd.apply(canonical) == canonical));
  CHECK((nfkd.apply(compatible) == compatible));
  CHECK((nfkd.apply(canonical) == compatible));
  CHECK((nfd.apply(nfc.apply(all)) == canonical));
  CHECK((nfkd.apply(nfkc.apply(all)) == compatible));
}

TEST_CASE("marks are sorted by class, and stay in order within a class", "[tokenizer]") {
  // Classes 220, 230, 230, 202; then 129 and 130, from the decomposition of a character of class 0.
  CHECK(by(unicode_form::nfd, "a\u0301\u0316\u0308\u0327") == "a\u0327\u0316\u0301\u0308");
  CHECK(by(unicode_form::nfd, "\u0f73\u0f73") == "\u0f71\u0f71\u0f72\u0f72");
  CHECK(by(unicode_form::nfc, "a\u0316\u0301") == "\u00e1\u0316");
  CHECK(by(unicode_form::nfc, "a\u0308\u0301") == "\u00e4\u0301");
  CHECK(by(unicode_form::nfd, "\u0301\u0316a\u0301\u0316") == "\u0316\u0301a\u0316\u0301");
}

TEST_CASE("a run of a million marks does not take quadratic time", "[tokenizer]") {
  constexpr int pairs = 500'000;
  std::string text = "a", acute, grave_below;
  for (int i = 0; i < pairs; ++i) {
    text += "\u0301\u0316";
    acute += "\u0301";
    grave_below += "\u0316";
  }
  CHECK((by(unicode_form::nfd, text) == "a" + grave_below + acute));
  CHECK((by(unicode_form::nfc, text) == "\u00e1" + grave_below + acute.substr(2)));
}

TEST_CASE("the steps of a normalizer run in order", "[tokenizer]") {
  CHECK(by(lowercase(), "\u0130\u00c4\u03a3 A") == "i\u0307\u00e4\u03c3 a");
  CHECK(by(replaced{expression("a+"), "b"}, "aaxa") == "bxb");
  CHECK(by(replaced{expression("x*"), "-"}, "axb") == "-a-b-");
  CHECK(by(prepended{"_"}, "").empty());
  CHECK(by(stripped{true, true}, "\u3000 a b\n") == "a b");
  CHECK(by(stripped{false, true}, " \n") == "");
  CHECK(normalizer({prepended{" A"}, lowercase(), stripped{true, false}}).apply("B ") == "ab ");
}

TEST_CASE("an added token can require word boundaries and take white space", "[tokenizer]") {
  CHECK(split({.id = 7, .content = "on"}, "on stone") == "7[ st]7[e]");
  CHECK(split({.id = 7, .content = "on", .single_word = true}, "on stone, on") == "7[ stone, ]7");
  CHECK(split({.id = 7, .content = "on", .single_word = true}, "\u00e9on on_") == "[\u00e9on on_]");
  CHECK(split({.id = 7, .content = "on", .single_word = true}, "\u24b6on on\u200d \u00bdon")
        == "[\u24b6on on\u200d \u00bd]7");
  CHECK(split({.id = 7, .content = "on", .lstrip = true}, "a \u3000on b") == "[a]7[ b]");
  CHECK(split({.id = 7, .content = "on", .rstrip = true}, "on \n on b") == "77[b]");
  CHECK(split({.id = 7, .content = "on", .special = true}, "on", false) == "[on]");
  CHECK(split({.id = 7, .content = "on"}, "") == "");
}

TEST_CASE("white space that one token took can start another", "[tokenizer]") {
  const added_tokens all({{.id = 1, .content = "on", .rstrip = true}, {.id = 2, .content = "\n"}});
  CHECK(split(all, "on \n b") == "12[ b]");  // as in Hugging Face's
  // The time is not quadratic in the text.
  std::int64_t found = 0;
  const std::string tabs(300000, '\t');
  for (const bool left : {false, true})
    added_tokens({{.id = 1, .content = "\t", .lstrip = left, .rstrip = !left}})
        .split(
            tabs, true, [](auto) {}, [&](std::int32_t) { ++found; });
  CHECK(found == 600000);
}

TEST_CASE("the longest of several matching added tokens counts", "[tokenizer]") {
  const added_tokens all(
      {{.id = 1, .content = "<"},
       {.id = 2, .content = "<a>"},
       {.id = 3, .content = "<a><b>"},
       {.id = 4, .content = "<a>"},  // replaces the earlier one with the same content
       {.id = 5, .content = ""}});
  CHECK(split(all, "<a<a><a><b<a><b>") == "1[a]441[b]3");
}

TEST_CASE("character classes of an expression equal Unicode's", "[tokenizer]") {
  CHECK(matches(R"(^\s$)", "\u0085"));
  CHECK_FALSE(matches(R"(^\s$)", "\u180e"));
  CHECK(matches(R"(^[\s]$)", "\u2003"));
  CHECK(matches(R"(^\S$)", "\u180e"));
  CHECK(matches(R"(^\w\d$)", "\u0939\u0663"));
  CHECK(matches(R"(^\w$)", "\u00bd"));
  CHECK(matches(R"(^[\w]$)", "\u24b6"));
  CHECK_FALSE(matches(R"(\w)", "\u200d"));
  CHECK(matches("a$", "a\nb"));
  CHECK(matches("^b", "a\nb"));
  CHECK(matches(R"(\p{Han}+)", "\u4e2d"));
  CHECK_FALSE(matches(R"(\p{Han})", "\u3001"));
  CHECK(matches(R"(^\p{^Lu}\P{Lu}$)", "ab"));
  CHECK(matches(R"(^a{1,2}b{2}\{$)", "aabb{"));
  CHECK(matches(R"(^[]a]$)", "]"));
  CHECK(matches(R"(^\[\\s$)", "[\\s"));
  CHECK(matches("(?i:'s)", "'\u017f"));
  CHECK(matches(pattern_of("a.b[c]*").c_str(), "xa.b[c]*"));
  CHECK_FALSE(matches(pattern_of("a.b").c_str(), "acb"));
  const auto* const bloom = R"(^[^(\s|[.,!?])]$)";
  CHECK(matches(bloom, "a"));
  for (const auto* within : {" ", "(", "|", ",", "?"})
    CHECK_FALSE(matches(bloom, within));
  CHECK(matches(R"(^[a[]b]c]$)", "]"));
  for (const auto* no : {"[a[^b]]", "[a&&b]", "[[:alpha:]]"})
    CHECK_THROWS_WITH(expression(no), ContainsSubstring("within a class"));
  for (const auto* no : {R"(\h)",
                         R"(\b)",
                         R"(\Qa\E)",
                         R"(\u0041)",
                         R"(\1)",
                         "(?i)a",
                         "(?m:.)",
                         "(?s:.)",
                         "(*UTF)a",
                         "a{,2}",
                         "a{1,2}+",
                         "a{",
                         "\\",
                         R"(\p{L)",
                         R"(\pL)",
                         R"(\p{Nothing})"}) {
    INFO(no);
    CHECK_THROWS_AS(expression(no), input_error);
  }
  CHECK_THROWS_WITH(expression("a(b"), ContainsSubstring("'a(b': missing closing parenthesis"));
}

TEST_CASE("an expression that backtracks too often is stopped", "[tokenizer]") {
  const expression slow(R"((?:a|aa)+[0-9])");
  expression_search search(slow);
  CHECK_THROWS_WITH(search.find(std::string(5000, 'a'), 0), ContainsSubstring("cannot search"));
}
