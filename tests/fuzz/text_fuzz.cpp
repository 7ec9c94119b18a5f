// Fuzzes a text file in one of four formats; the first byte selects the format.

#include "runtime/data/text_reader.hpp"
#include "runtime/data/utf8.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

std::vector<std::string> documents(const std::filesystem::path& path, text_format format) {
  std::vector<std::string> out;
  std::uint64_t before = 0;
  const auto size = std::filesystem::file_size(path);
  for_each_document(path, {.format = format}, [&](std::string_view text, std::uint64_t done) {
    fuzz::require(first_invalid_utf8(text) == text.npos, "a document is UTF-8");
    fuzz::require(before <= done && done <= size, "the count of processed bytes only grows");
    before = done;
    out.emplace_back(text);
  });
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {"0{\"text\": \"one\\ntwo \\u00e9\"}\n\n{\"id\": [1, {}], \"text\": \"\"}",
          "1one\ntwo\n\nthree\r\n\r\n",
          "2one\n \n two",
          "3\xef\xbb\xbfone\n\n\xe2\x82\xac"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"text\":",
          "\\ud83d\\ude00",
          "\\ud83d",
          "\xef\xbb\xbf",
          "\r\n",
          "\n\n",
          "[[[[[[[[",
          "1e999",
          std::string(1, '\0')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  const auto format = text_format(data[0] % 4);
  const auto path = fuzz::folder() / "x.txt", again = fuzz::folder() / "again.jsonl";
  fuzz::put(path, fuzz::text_of(data + 1, size - 1));
  fuzz::accepted([&] {
    const auto found = documents(path, format);
    std::string lines;
    for (const auto& text : found)
      lines += nlohmann::json{{"text", text}}.dump() + "\n";
    fuzz::put(again, lines);
    fuzz::require(documents(again, text_format::jsonl) == found,
                  "documents survive a round trip as JSON lines");
  });
  return 0;
}
