#include "runtime/tokenizer/pre_tokenizer.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>
#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

using words = std::vector<std::string>;

words cut(std::string_view text) {
  const pre_tokenizer rule;
  word_cursor cursor(rule, text);
  words found;
  for (auto word = cursor.next(); !word.empty(); word = cursor.next())
    found.emplace_back(word);
  return found;
}

std::string utf8(char32_t c) {
  if (c < 0x80)
    return {char(c)};
  if (c < 0x800)
    return {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
  if (c < 0x10000)
    return {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
  return {char(0xF0 | c >> 18),
          char(0x80 | (c >> 12 & 0x3F)),
          char(0x80 | (c >> 6 & 0x3F)),
          char(0x80 | (c & 0x3F))};
}

}  // namespace

TEST_CASE("a word includes the space before it", "[tokenizer]") {
  CHECK(cut("Hello world") == words{"Hello", " world"});
  CHECK(cut("x = 10;") == words{"x", " =", " 10", ";"});
  CHECK(cut("a\nb") == words{"a", "\n", "b"});
}

TEST_CASE("English contractions are split off, in small letters only", "[tokenizer]") {
  CHECK(cut("we've I'm he'd") == words{"we", "'ve", " I", "'m", " he", "'d"});
  CHECK(cut("WE'VE") == words{"WE", "'", "VE"});
  CHECK(cut("o'clock") == words{"o", "'", "clock"});
}

TEST_CASE("the last of several spaces belongs to the next word", "[tokenizer]") {
  CHECK(cut("a   b") == words{"a", "  ", " b"});
  CHECK(cut("a \n b") == words{"a", " \n", " b"});
  CHECK(cut("a\t\tb") == words{"a", "\t", "\t", "b"});
  CHECK(cut("a   ") == words{"a", "   "});
  CHECK(cut("   ") == words{"   "});
}

TEST_CASE("letters and numbers are Unicode's", "[tokenizer]") {
  CHECK(cut("Öl ½٣x") == words{"Öl", " ½٣", "x"});
  CHECK(cut("幕が、上がる") == words{"幕が", "、", "上がる"});
  CHECK(cut("e\u0301a") == words{"e", "\u0301", "a"});  // a combining mark is not a letter
}

TEST_CASE("white space is Unicode's, without U+180E and U+200B", "[tokenizer]") {
  CHECK(cut("a\u00a0\u3000b") == words{"a", "\u00a0", "\u3000", "b"});
  CHECK(cut("a\u180eb") == words{"a", "\u180e", "b"});
  CHECK(cut("a \u180eb") == words{"a", " \u180e", "b"});
  CHECK(cut("a \u200b\u0085") == words{"a", " \u200b", "\u0085"});
}

TEST_CASE("an invalid byte is a word of its own", "[tokenizer]") {
  CHECK(cut("ab\xFF"
            "cd")
        == words{"ab", "\xFF", "cd"});
  CHECK(cut("\xC3") == words{"\xC3"});
  CHECK(cut("\xE2\x82 x") == words{"\xE2", "\x82", " x"});
  CHECK(cut("a  \xFF b") == words{"a", "  ", "\xFF", " b"});
}

TEST_CASE("UTF-8 is validated as in RFC 3629", "[tokenizer]") {
  for (const char* valid : {"",
                            "plain",
                            "\xC2\x80",
                            "\xE0\xA0\x80",
                            "\xED\x9F\xBF",
                            "\xEF\xBF\xBF",
                            "\xF0\x90\x80\x80",
                            "\xF4\x8F\xBF\xBF",
                            "eight bytes and an \xC3\xA4"})
    CHECK(valid_utf8_prefix(valid) == std::string_view(valid).size());
  for (const char* invalid : {"\x80",
                              "\xC0\x80",
                              "\xC1\xBF",
                              "\xE0\x9F\xBF",
                              "\xED\xA0\x80",
                              "\xF0\x8F\xBF\xBF",
                              "\xF4\x90\x80\x80",
                              "\xF5\x80\x80\x80",
                              "\xFF",
                              "\xE2\x82",
                              "\xF0\x90\x80"})
    CHECK(valid_utf8_prefix(std::string("12345678") + invalid) == 8);
}

TEST_CASE("the words of any bytes join to the same bytes", "[tokenizer]") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 100; ++i)
      text += static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    std::string joined;
    for (const auto& word : cut(text))
      joined += word;
    CHECK(joined == text);
  }
}

TEST_CASE("words of megabytes are found", "[tokenizer]") {
  for (const char* unit : {"a", " ", "\u4e2d", "\u3000", "-", "7"}) {
    std::string text;
    while (text.size() < 3'000'000)
      text += unit;
    CHECK(cut(text).size() == 1);
  }
}

TEST_CASE("WORDS-1: a word begins at every character of Unicode", "[tokenizer]") {
  std::string text;
  std::size_t characters = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c)
    if (c < 0xD800 || c > 0xDFFF) {
      text += '\xFF' + utf8(c);  // between invalid bytes each character is a text of its own
      ++characters;
    }
  const pre_tokenizer rule;
  word_cursor cursor(rule, text);
  std::size_t found = 0, bytes = 0;
  for (auto word = cursor.next(); !word.empty(); word = cursor.next()) {
    ++found;
    bytes += word.size();
  }
  CHECK(found == 2 * characters);
  CHECK(bytes == text.size());
}
