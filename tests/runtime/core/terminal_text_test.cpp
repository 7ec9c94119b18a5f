#include "runtime/core/terminal_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

using namespace troupe::runtime;

TEST_CASE("what a terminal obeys is escaped, and every other character stays", "[core]") {
  const std::string plain = "'a b'\n\t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xad";
  CHECK(without_control(plain) == plain);
  CHECK(without_control("\x1b[31mred\x07\r\x7f") == "\\x1b[31mred\\x07\\x0d\\x7f");
  CHECK(without_control(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(without_control("\xc2\x9b"
                        "31m")
        == "\\xc2\\x9b31m");  // U+009B, which begins a sequence as ESC [ does
  CHECK(without_control("\xff \xc3 \xe2\x82") == "\\xff \\xc3 \\xe2\\x82");
}

TEST_CASE("a long line of a message keeps its beginning and its end, and no half of a character",
          "[core]") {
  const auto shift = GENERATE(0, 1);
  std::string word;
  for (int i = 0; i < 1 << 20; ++i)
    word += "\xc3\xa9";
  const auto text
      = message_text("first\n" + std::string(shift, 'x') + "'" + word + "': give less\nlast");
  CHECK(text.size() < longest_message_line + 100);
  CHECK(text.starts_with("first\n"));
  CHECK(text.ends_with("': give less\nlast"));
  CHECK(text.find("bytes more") != text.npos);
  CHECK(text.find("\\x") == text.npos);
  CHECK(without_control(text) == text);
  const std::string fits(longest_message_line, 'x');
  CHECK(message_text(fits) == fits);
}
