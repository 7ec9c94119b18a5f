// Elements of a file that is one JSON array.

#include "runtime/data/json_array_reader.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/runtime/data/compressed.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

using elements = std::vector<std::pair<std::string, std::uint64_t>>;  // text, line

elements elements_of(const std::string& content, std::uint64_t largest = 1U << 30) {
  const scratch_folder folder;
  write_text(folder / "x.json", content);
  REQUIRE(json_array_reader::reads(folder / "x.json"));
  json_array_reader reader(folder / "x.json");
  elements out;
  for (text_record record; reader.next(record, largest);)
    out.emplace_back(record.text, record.line);
  CHECK(reader.file_bytes() == content.size());
  return out;
}

std::string refusal(const std::string& content, std::uint64_t largest = 1U << 30) {
  try {
    elements_of(content, largest);
  } catch (const input_error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("an array is divided into its elements, with the line of each", "[data]") {
  CHECK(elements_of("[]").empty());
  CHECK(elements_of("\xef\xbb\xbf\n [ ]\n").empty());
  CHECK(elements_of("[{\"a\": [1, {\"b\": 2}]},3 ,\n\n \"x,]\\\"}\\\\\"\n]\r\n")
        == elements{{"{\"a\": [1, {\"b\": 2}]}", 1}, {"3", 1}, {"\"x,]\\\"}\\\\\"", 3}});
  CHECK(elements_of("[\n{\n\"a\": 1\n},\n{}]") == elements{{"{\n\"a\": 1\n}", 2}, {"{}", 5}});
}

TEST_CASE("elements may be longer than what is read at once, and compressed", "[data]") {
  elements expected;
  std::string text = "[";
  for (std::size_t i = 0; i < 40; ++i) {
    expected.emplace_back(
        "\"" + std::string(i * 9'973 % 3'000'000 + i * 70'000, "x]"[i % 2]) + "\"", i + 1);
    text += expected.back().first + (i == 39 ? "]" : ",\n");
  }
  CHECK((elements_of(text) == expected));
  CHECK((elements_of(gzip(text)) == expected));
}

TEST_CASE("a torn array, and text after an array, are refused with the line", "[data]") {
  CHECK_THAT(refusal("[1,\n{\"a\": 2"),
             ContainsSubstring("line 2: ") && ContainsSubstring("truncated"));
  CHECK_THAT(refusal("[1\n"), ContainsSubstring("truncated"));
  CHECK_THAT(refusal("[1,"), ContainsSubstring("truncated"));
  CHECK_THAT(refusal("["), ContainsSubstring("truncated"));
  CHECK_THAT(refusal("[1,\n]"), ContainsSubstring("line 2: no element follows the last comma"));
  CHECK_THAT(refusal("[1]\n[2]"), ContainsSubstring("line 2: text follows the end"));
  CHECK_THAT(refusal("[1, \"" + std::string(100, 'a') + "\"]", 50), ContainsSubstring("split it"));
}

TEST_CASE("an element that is missing is given as an empty text", "[data]") {
  CHECK(elements_of("[,1,,2]") == elements{{"", 1}, {"1", 1}, {"", 1}, {"2", 1}});
}

TEST_CASE("a file of JSON lines is not an array", "[data]") {
  const scratch_folder folder;
  for (const auto* text : {"", "\n", "{\"a\": [1]}\n", "x"}) {
    write_text(folder / "x.json", text);
    CHECK_FALSE(json_array_reader::reads(folder / "x.json"));
  }
}
