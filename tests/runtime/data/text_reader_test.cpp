#include "runtime/data/text_reader.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/utf8.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;

namespace {

std::vector<std::string> documents(std::string_view content, const text_options& options) {
  const scratch_folder folder;
  write_text(folder / "input", content);
  std::vector<std::string> out;
  std::uint64_t last = 0;
  for_each_document(folder / "input", options, [&](std::string_view text, std::uint64_t done) {
    out.emplace_back(text);
    CHECK(done >= last);
    CHECK(done <= content.size());
    last = done;
  });
  return out;
}

std::string refusal(std::string_view content, const text_options& options) {
  try {
    documents(content, options);
  } catch (const input_error& e) {
    return e.what();
  }
  return "accepted";
}

using texts = std::vector<std::string>;
const text_options jsonl{.format = text_format::jsonl};
const text_options paragraphs{.format = text_format::paragraphs};
const text_options lines{.format = text_format::lines};
const text_options whole{.format = text_format::whole};

}  // namespace

TEST_CASE("each line of JSONL is a document", "[data]") {
  CHECK(
      documents("{\"text\": \"a\\nb\"}\n\n{\"id\": 3, \"text\": \"\\u00e9 \\ud83d\\ude00\"}", jsonl)
      == texts{"a\nb", "é 😀"});
  CHECK(documents("\xef\xbb\xbf{\"text\": \"\"}\r\n", jsonl) == texts{""});
  CHECK(documents("{\"text\": \"a\", \"body\": \"b\"}", {.json_key = "body"}) == texts{"b"});
  CHECK(documents("", jsonl).empty());
}

TEST_CASE("an invalid line of JSONL is reported with file, line and reason", "[data]") {
  const std::string good = "{\"text\": \"a\"}\n";
  CHECK_THAT(refusal(good + "{\"text\": \"a\"\n", jsonl),
             ContainsSubstring("input', line 2: at byte") && ContainsSubstring("one JSON object"));
  CHECK_THAT(refusal(good + good + "[1]\n", jsonl),
             ContainsSubstring("line 3: it is a JSON array, not an object"));
  CHECK_THAT(refusal("{\"id\": 1, \"url\": 2}", jsonl),
             ContainsSubstring("no key 'text' (it has id, url)"));
  CHECK_THAT(refusal("{}", jsonl), ContainsSubstring("it has none"));
  CHECK_THAT(refusal("{\"text\": 3}", jsonl), ContainsSubstring("its 'text' is a number"));
  CHECK_THAT(refusal("{\"text\": \"\xff\"}", jsonl), ContainsSubstring("UTF-8"));
  CHECK_THAT(refusal("{\"text\": \"\\ud800\"}", jsonl), ContainsSubstring("line 1"));
  CHECK_THAT(refusal(good + "{\"text\": \"a\"} x", jsonl), ContainsSubstring("line 2"));
}

TEST_CASE("plain text is split at blank lines, at lines, or not at all", "[data]") {
  const std::string text = "\n a\nb\r\n \t\r\n\nc\n\n\nd";
  CHECK(documents(text, paragraphs) == texts{" a\nb", "c", "d"});
  CHECK(documents(text, lines) == texts{" a", "b", "c", "d"});
  CHECK(documents(text, whole) == texts{text});
  CHECK(documents("\xef\xbb\xbf"
                  "a\n",
                  whole)
        == texts{"a\n"});
  for (const auto& options : {paragraphs, lines, whole})
    CHECK(documents("", options).empty());
  CHECK(documents("\n\n", paragraphs).empty());
}

TEST_CASE("plain text that is not UTF-8 is reported with line and byte", "[data]") {
  CHECK_THAT(refusal("a\n\nb\nc\xe9 d\n", paragraphs),
             ContainsSubstring("line 4: its byte 2 (0xe9)") && ContainsSubstring("iconv"));
  CHECK_THAT(refusal("a\nbc\xe9", lines), ContainsSubstring("line 2: its byte 3"));
  CHECK_THAT(refusal("a\nbc\n\xc3", whole), ContainsSubstring("line 3: its byte 1"));
}

TEST_CASE("UTF-8 is validated as in RFC 3629", "[data]") {
  constexpr auto npos = std::string_view::npos;
  for (const char* good : {"",
                           "a",
                           "\x7f",
                           "\xc2\x80",
                           "\xdf\xbf",
                           "\xe0\xa0\x80",
                           "\xed\x9f\xbf",
                           "\xee\x80\x80",
                           "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80",
                           "\xf4\x8f\xbf\xbf"})
    CHECK(first_invalid_utf8(good) == npos);
  for (const char* bad : {"\x80",
                          "\xc0\x80",
                          "\xc1\xbf",
                          "\xc2",
                          "\xc2 ",
                          "\xe0\x9f\xbf",
                          "\xed\xa0\x80",
                          "\xe1\x80",
                          "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80",
                          "\xf1\x80\x80",
                          "\xff"})
    CHECK(first_invalid_utf8(std::string("é") + bad) == 2);
}

TEST_CASE("the format of a text file follows from its name, or is given", "[data]") {
  CHECK(text_format_of("a/b.jsonl") == text_format::jsonl);
  CHECK(text_format_of("a.json") == text_format::jsonl);
  CHECK(text_format_of("a.txt") == text_format::paragraphs);
  CHECK(parse_text_format("whole") == text_format::whole);
  CHECK_THROWS_WITH(parse_text_format("xml"), ContainsSubstring("jsonl, paragraphs, lines"));
  CHECK_THROWS_WITH(for_each_document("/none", lines, {}), ContainsSubstring("No such file"));
}
