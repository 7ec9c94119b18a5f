#include "runtime/tokenizer/null_tokenizer.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/constraint_walk.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <functional>
#include <regex>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

std::shared_ptr<const token_constraint> expression_of(std::string_view text) {
  return token_constraint::of_expression(text, pieces_with());
}

bool fits_expression(std::string_view expression, std::string_view text) {
  return fate_of(expression_of(expression), text).fits;
}

}  // namespace

TEST_CASE("a text fits a regular expression as a whole", "[inference][constraint]") {
  CHECK(fits_expression("abc", "abc"));
  CHECK_FALSE(fits_expression("abc", "ab"));
  CHECK_FALSE(fits_expression("abc", "abcd"));
  CHECK(fits_expression("", ""));
  CHECK(fits_expression("a|bc|", "bc"));
  CHECK(fits_expression("a|bc|", ""));
  CHECK(fits_expression("^(yes|no)$", "no"));
  CHECK(fits_expression("(?:ab)+c?", "ababc"));
  CHECK_FALSE(fits_expression("(?:ab)+c?", "c"));
  CHECK(fits_expression("(?<year>\\d{4})-(?P<month>\\d\\d)", "2026-12"));
  CHECK(fits_expression("a{2,3}", "aa"));
  CHECK(fits_expression("a{2,3}", "aaa"));
  CHECK_FALSE(fits_expression("a{2,3}", "a"));
  CHECK_FALSE(fits_expression("a{2,3}", "aaaa"));
  CHECK(fits_expression("a{2,}", "aaaaaa"));
  CHECK(fits_expression("(a?){3}b", "aab"));
  CHECK(fits_expression("(a?b?){2,3}", "abab"));
  CHECK_FALSE(fits_expression("(a?b?){2,3}", "abababab"));
  CHECK(fits_expression("(a*)*", "aaa"));
  CHECK(fits_expression("((a|b*)+c?)*", "bbca"));
  CHECK(fits_expression("[a-c\\d_-]+", "b7_-"));
  CHECK_FALSE(fits_expression("[^a-c]", "b"));
  CHECK(fits_expression("[]a]+", "]a"));
  CHECK(fits_expression("\\x41\\u0042\\u{43}\\.\\n", "ABC.\n"));
  CHECK(fits_expression("\\w+\\s\\S", "a_9 \xC3\xA9"));
  CHECK(fits_expression("a+?b", "aab"));
}

TEST_CASE("a character is a whole character of UTF-8", "[inference][constraint]") {
  CHECK(fits_expression(".", "\xC3\xA9"));
  CHECK(fits_expression(".{2}", "\xE2\x82\xAC\xF0\x9F\x98\x80"));
  CHECK_FALSE(fits_expression(".", "\n"));
  CHECK(fits_expression("[\xC3\xA0-\xC3\xBF]+", "\xC3\xA9\xC3\xBF"));
  CHECK_FALSE(fits_expression("[\xC3\xA0-\xC3\xBF]+", "\xC3\x80"));
  CHECK(fits_expression("[^a]", "\xF4\x8F\xBF\xBF"));
  CHECK(fate_of(expression_of(".*"), "\xC3").allowed == 1);
  CHECK(fate_of(expression_of(".*"), "\xFF").allowed == 0);
  CHECK(fate_of(expression_of(".*"), "\xC0\x80").allowed == 0);          // an overlong form
  CHECK(fate_of(expression_of(".*"), "\xED\xA0\x80").allowed == 1);      // a surrogate
  CHECK(fate_of(expression_of(".*"), "\xF4\x90\x80\x80").allowed == 1);  // above U+10FFFF
}

TEST_CASE("every expression and text is judged as by the standard library",
          "[inference][constraint]") {
  // Random expressions of a few symbols, and all texts of up to 6 letters.
  std::mt19937_64 random(7);
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; i < texts.size() && texts[i].size() < 6; ++i)
    for (const char letter : {'a', 'b'})
      texts.push_back(texts[i] + letter);
  const std::function<std::string(int)> made = [&](int depth) -> std::string {
    switch (random() % (depth == 0 ? 3 : 8)) {
      case 0:
        return "a";
      case 1:
        return "b";
      case 2:
        return "[ab]";
      case 3:
      case 4:
        return made(depth - 1) + made(depth - 1);
      case 5:
        return "(" + made(depth - 1) + "|" + made(depth - 1) + ")";
      case 6:
        return "(" + made(depth - 1) + ")" + std::string(1, "*+?"[random() % 3]);
      default:
        return "(" + made(depth - 1) + "){" + std::to_string(random() % 3) + ","
               + std::to_string(2 + random() % 2) + "}";
    }
  };
  for (int i = 0; i < 150; ++i) {
    const auto expression = made(4);
    INFO(expression);
    const auto by = expression_of(expression);
    const std::regex judge(expression);
    for (const auto& text : texts) {
      constraint_state at(by);
      bool fits = true;
      for (const char byte : text)
        fits = fits && at.advance(std::uint8_t(byte));
      if ((fits && at.may_end()) != std::regex_match(text, judge))
        FAIL("'" << text << "'");
    }
  }
}

TEST_CASE("the allowed tokens are those whose bytes the constraint takes",
          "[inference][constraint]") {
  std::mt19937_64 random(3);
  const auto pieces = pieces_with({"ab", "abc", "abab", "b", "c\xC3", "\xA9", "ba"});
  const auto by = token_constraint::of_expression("(ab|c\xC3\xA9?){1,4}", pieces);
  for (int walk = 0; walk < 30; ++walk) {
    constraint_state at(by);
    while (!at.must_end()) {
      const auto bits = at.allowed({});
      const std::vector<std::uint64_t> mask(bits.begin(), bits.end());
      std::vector<std::int32_t> taken;
      for (std::int32_t token = 0; token < pieces->size(); ++token)
        if (auto copy = at; copy.advance(token))
          taken.push_back(token);
      REQUIRE(tokens_in(mask) == taken);
      REQUIRE_FALSE((taken.empty() && !at.may_end()));
      if (taken.empty())
        break;
      REQUIRE(at.advance(taken[random() % taken.size()]));
    }
  }
}

TEST_CASE("end tokens are allowed only where the text may end", "[inference][constraint]") {
  const auto pieces = pieces_with();
  const std::int32_t end = 256;
  constraint_state at(token_constraint::of_expression("ab?", pieces));
  const auto allows_end = [&] { return (at.allowed({&end, 1})[4] & 1) != 0; };
  CHECK_FALSE(allows_end());
  CHECK_FALSE(at.may_end());
  CHECK_FALSE(at.advance(end));
  CHECK_FALSE(at.advance(-1));
  CHECK_FALSE(at.advance('b'));
  REQUIRE(at.advance('a'));
  CHECK(allows_end());
  CHECK_FALSE(at.must_end());
  REQUIRE(at.advance('b'));
  CHECK(at.must_end());
  CHECK(tokens_in(at.allowed({&end, 1})) == std::vector{end});
  CHECK(at.text() == "ab");
}

TEST_CASE("the first token of a text may have other bytes than later ones",
          "[inference][constraint]") {
  // SentencePiece leaves out the first blank of a text.
  const auto pieces
      = std::make_shared<const token_pieces>(std::vector<std::string>{"yes", "y", "e", "s", ""},
                                             std::vector<std::string>{" yes", "y", "e", "s", " "});
  constraint_state at(token_constraint::of_expression("yes( yes)?", pieces));
  CHECK(tokens_in(at.allowed({})) == std::vector{0, 1});
  REQUIRE(at.advance(0));
  CHECK(at.text() == "yes");
  CHECK(tokens_in(at.allowed({})) == std::vector{0, 4});
  CHECK_BREAKS("PIECES-1", token_pieces({"a"}, {}));
}

TEST_CASE("a tokenizer's special tokens are never text", "[inference][constraint]") {
  const byte_tokenizer by("yes", {"<|end|>"});
  const auto pieces = std::make_shared<const token_pieces>(by);
  constraint_state at(token_constraint::of_expression("[a-z<>|]*", pieces));
  std::vector<std::int32_t> letters = {'<', '>', '|'};
  for (std::int32_t byte = 'a'; byte <= 'z'; ++byte)
    letters.push_back(byte);
  letters.push_back(byte_tokenizer::pair);
  std::sort(letters.begin(), letters.end());
  CHECK(tokens_in(at.allowed({})) == letters);
  REQUIRE(at.advance(byte_tokenizer::pair));
  CHECK(at.text() == "yes");
  CHECK_FALSE(at.advance(byte_tokenizer::pair + 1));
  const auto words = std::make_shared<const token_pieces>(null_tokenizer(10));
  CHECK_THROWS_WITH(token_constraint::of_expression("1 2", words),
                    ContainsSubstring("no text fits"));  // no token is a blank
}

TEST_CASE("a constraint uses no byte that only longer tokens have", "[inference][constraint]") {
  const std::vector<std::string> all = {"a", "b", "xa", "ca"};
  const auto pieces = std::make_shared<const token_pieces>(all, all);
  constraint_state at(token_constraint::of_expression("a|b|xa|xb", pieces));
  CHECK(tokens_in(at.allowed({})) == std::vector{0, 1});  // after x alone there would be no token
  CHECK_THROWS_WITH(token_constraint::of_expression("x[ab]", pieces),
                    ContainsSubstring("no text fits"));
}

TEST_CASE("unsupported and wrong expressions are refused with their place",
          "[inference][constraint]") {
  for (const auto& [expression, message] : std::vector<std::pair<std::string, std::string>>{
           {"a(?=b)", "byte 3: a group begins with"},
           {"(?i)a", "assertions and options are not supported"},
           {"(?<!a)b", "assertions"},
           {"(a)\\1", "\\1 is not supported"},
           {"\\bword", "\\b is not supported"},
           {"\\p{L}", "\\p is not supported"},
           {"a++", "a repetition follows a repetition"},
           {"*a", "nothing to repeat"},
           {"a{2", "write {2}"},
           {"a{3,2}", "the second bound is below the first"},
           {"a{9999999}", "above 1000000"},
           {"a{99999999999}", "above 1000000"},
           {"(a", "has no )"},
           {"a)", "closes no group"},
           {"[a", "has no ]"},
           {"[b-a]", "no order"},
           {"[[:alpha:]]", "named classes"},
           {"a^b", "stand only at the ends"},
           {"(a$)", "stand only at the ends"},
           {"a$b", "$ stands only at the end"},
           {"\\u{110000}", "hexadecimal digits"},
           {"\\ud800", "hexadecimal digits"},
           {"\\", "ends the expression"},
           {"\xFF", "not valid UTF-8"},
           {std::string(200, '('), "nested more than 100 deep"},
           {std::string(20000, 'a'), "10000 are the most"},
           {"[^\\x00-\\u{10ffff}]", "no text fits"}}) {
    INFO(expression.substr(0, 40));
    CHECK_THROWS_WITH(expression_of(expression), ContainsSubstring(message));
  }
}

TEST_CASE("large bounds take little memory and time", "[inference][constraint]") {
  constraint_state at(expression_of("(a{1000000}b){0,1000000}"));
  for (int i = 0; i < 3000; ++i)
    REQUIRE(at.advance('a'));
  CHECK(tokens_in(at.allowed({})) == std::vector<std::int32_t>{'a'});
  // Ambiguous counts: refused where the ways become many, not before.
  constraint_state many(expression_of("(a{0,100000}){0,100000}"));
  const auto go_on = [&] {
    for (int i = 0; i < 100'000; ++i)
      many.advance('a');
  };
  CHECK_THROWS_WITH(go_on(), ContainsSubstring("less ambiguous"));
}

TEST_CASE("forgotten states are found again from the text", "[inference][constraint]") {
  // Each count is a state with a set of tokens of 25 kB, so that 64 MB are full once.
  const auto by = token_constraint::of_expression("[ab]{0,20000}c",
                                                  pieces_with(std::vector<std::string>(200'000)));
  constraint_state one(by), other(by);
  for (int i = 0; i < 6000; ++i) {
    auto& at = i % 3 == 0 ? one : other;
    REQUIRE((at.allowed({})['a' / 64] >> ('a' % 64) & 1) != 0);
    REQUIRE(at.advance('a'));
  }
  REQUIRE(one.advance('c'));
  CHECK(one.text() == std::string(2000, 'a') + "c");
  CHECK(one.must_end());
  CHECK_FALSE(other.may_end());
}

TEST_CASE("a rule has no empty text", "[inference][constraint]") {
  constraint_grammar to(byte_range(0, 255));
  const auto rule = to.rule();
  CHECK_BREAKS("GRAMMAR-1", to.define(rule, to.empty()));
}
