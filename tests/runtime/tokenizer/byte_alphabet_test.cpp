#include "runtime/tokenizer/byte_alphabet.hpp"

#include <catch2/catch_test_macros.hpp>

#include <initializer_list>
#include <set>
#include <string>

using namespace troupe::runtime;

TEST_CASE("256 bytes map to 256 characters and back", "[tokenizer]") {
  std::set<std::string_view> distinct;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string alone(1, static_cast<char>(byte));
    distinct.insert(character_of(std::uint8_t(byte)));
    CHECK(to_bytes(character_of(std::uint8_t(byte))) == alone);
  }
  CHECK(distinct.size() == 256);
}

TEST_CASE("the characters are GPT-2's", "[tokenizer]") {
  std::string found;
  for (const int byte :
       std::initializer_list<int>{' ', 'a', '\n', '~', 0x7f, 0xA1, 0xAC, 0xAD, 0xAE, 0xFF, 0})
    found += character_of(std::uint8_t(byte));
  CHECK(found == "\u0120a\u010a~\u0121\u00a1\u00ac\u0143\u00ae\u00ff\u0100");
}

TEST_CASE("ids 0 to 255 follow the characters, as in GPT-2's vocab.json", "[tokenizer]") {
  const auto& order = bytes_by_character();
  CHECK(order[0] == '!');
  CHECK(order[93] == '~');
  CHECK(order[94] == 0xA1);
  CHECK(order[188] == 0x00);
  CHECK(order[220] == ' ');
  CHECK(order[255] == 0xAD);
}

TEST_CASE("characters that represent no byte are recognised", "[tokenizer]") {
  CHECK_FALSE(to_bytes("a b"));
  CHECK_FALSE(to_bytes("\u0144"));
  CHECK_FALSE(to_bytes("\u4e2d"));
  CHECK_FALSE(to_bytes("\xC4"));
  CHECK(to_bytes("") == "");
}
