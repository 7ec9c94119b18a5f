#include "runtime/core/terminal_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

using namespace troupe::runtime;

TEST_CASE("control characters of a terminal are escaped; others stay", "[core]") {
  const std::string plain = "'a b'\n\t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xad";
  CHECK(without_control(plain) == plain);
  CHECK(without_control("\x1b[31mred\x07\r\x7f") == "\\x1b[31mred\\x07\\x0d\\x7f");
  CHECK(without_control(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(without_control("\xc2\x9b"
                        "31m")
        == "\\xc2\\x9b31m");  // U+009B begins a control sequence like ESC [
  CHECK(without_control("\xff \xc3 \xe2\x82") == "\\xff \\xc3 \\xe2\\x82");
}

TEST_CASE("a shortened line keeps its beginning, its end and whole characters", "[core]") {
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
