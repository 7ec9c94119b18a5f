#include "runtime/data/inflating_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/text_reader.hpp"
#include "runtime/file/file.hpp"
#include "tests/runtime/data/compressed.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string inflated(const std::filesystem::path& path, std::size_t step = 4096) {
  inflating_file file(path);
  std::string out, some(step, '\0');
  while (const auto n = file.read(some.data(), some.size()))
    out.append(some, 0, n);
  CHECK(file.taken() == file.size());
  return out;
}

std::string refused(const std::filesystem::path& path, const std::string& content) {
  write_text(path, content);
  try {
    inflated(path);
  } catch (const input_error& e) {
    return e.what();
  }
  return "accepted";
}

/// Some parts compress well, others do not.
std::string long_text() {
  std::string out;
  std::uint64_t x = 1;
  for (int i = 0; i < 60'000; ++i)
    out += fmt::format("{} line {}\n", x = x * 6364136223846793005U + 1442695040888963407U, i);
  return out;
}

}  // namespace

TEST_CASE("gzip and Zstandard files are recognised by their content", "[data]") {
  const scratch_folder folder;
  const auto text = long_text();
  for (const auto& content : {text, gzip(text), zstd(text)})
    for (const std::size_t step : {std::size_t{1000}, std::size_t{1} << 22}) {
      write_text(folder / "any.name", content);
      CHECK(inflated(folder / "any.name", step) == text);
    }
  for (const auto& content : {gzip(""), zstd(""), std::string()}) {
    write_text(folder / "any.name", content);
    CHECK(inflated(folder / "any.name").empty());
  }
}

TEST_CASE("several members or frames are one text", "[data]") {
  const scratch_folder folder;
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  for (const auto& content : {gzip("one\n") + gzip("") + gzip("two\n"),
                              gzip("one\ntwo\n") + std::string(700, '\0'),
                              zstd("one\n") + zstd("") + zstd("two\n"),
                              skippable + zstd("one\ntwo\n") + skippable}) {
    write_text(folder / "x", content);
    CHECK(inflated(folder / "x") == "one\ntwo\n");
    CHECK(inflated(folder / "x", 1) == "one\ntwo\n");
  }
}

TEST_CASE("a truncated or damaged compressed file is named", "[data]") {
  const scratch_folder folder;
  const auto text = long_text();
  for (const bool zst : {false, true}) {
    const auto whole = zst ? zstd(text) : gzip(text);
    const auto path = folder / (zst ? "a.zst" : "a.gz");
    for (const auto size :
         {std::size_t{0}, std::size_t{3}, std::size_t{7}, whole.size() / 2, whole.size() - 1})
      CHECK_THAT(refused(path, whole.substr(0, size)),
                 ContainsSubstring(path.string()) && ContainsSubstring("truncated")
                     && ContainsSubstring("download it again"));
    auto damaged = whole;
    for (std::size_t i = 0; i < 40; ++i)
      damaged[whole.size() / 2 + i] = char(damaged[whole.size() / 2 + i] ^ 0x5a);
    CHECK_THAT(refused(path, damaged), ContainsSubstring("damaged"));
  }
  CHECK_THAT(refused(folder / "a.gz", gzip("one") + "rest"), ContainsSubstring("are not gzip"));
  CHECK_THAT(refused(folder / "a.zst", zstd("one") + "rest"), ContainsSubstring("damaged"));
  CHECK_THAT(refused(folder / "a", std::string("\xfd\x37zXZ\0\0", 7)), ContainsSubstring("by xz"));
  CHECK_THAT(refused(folder / "a", "BZh91AY&SY"), ContainsSubstring("by bzip2"));
  CHECK_THAT(refused(folder / "a", "BZh61AY&SY"), ContainsSubstring("by bzip2"));
}

TEST_CASE("Parquet is answered by the command that converts it", "[data]") {
  const scratch_folder folder;
  const auto path = folder / "talks.parquet";
  CHECK_THAT(refused(path, std::string("PAR1\x15\x04\0", 7)),
             ContainsSubstring("duckdb -c \"COPY (FROM '" + path.string()
                               + "') TO 'talks.jsonl' (FORMAT json)\""));
}

TEST_CASE("a text that starts like another format is text, however short", "[data]") {
  const scratch_folder folder;
  for (const std::string text :
       {"B", "BZ", "BZh", "BZh9", "BZh1A", "BZhoney", "PAR", "PAR1", "PAR1\n"}) {
    write_text(folder / "a", text);
    std::string found(100, ' ');
    inflating_file file(folder / "a");
    found.resize(file.read(found.data(), found.size()));
    CHECK(found == text);
  }
}

TEST_CASE("compressed text can be skipped up to a position", "[data]") {
  const scratch_folder folder;
  const auto text = long_text();
  for (const auto& content : {text, gzip(text), zstd(text)}) {
    write_text(folder / "x", content);
    inflating_file file(folder / "x");
    file.skip(1'000'001);
    std::string some(20, '\0');
    CHECK(file.read(some.data(), 20) == 20);
    CHECK(some == text.substr(1'000'001, 20));
    CHECK_THROWS_AS(inflating_file(folder / "x").skip(text.size() + 1), input_error);
  }
}

TEST_CASE("documents are read from compressed files", "[data]") {
  const scratch_folder folder;
  write_text(folder / "a.jsonl.gz", gzip("{\"text\": \"one\"}\n") + gzip("{\"text\": \"two\"}\n"));
  CHECK(text_format_of(folder / "a.jsonl.gz") == text_format::jsonl);
  CHECK(text_format_of("a.json.zst") == text_format::jsonl);
  CHECK(text_format_of("a.txt.zst") == text_format::paragraphs);
  std::string all;
  for_each_document(folder / "a.jsonl.gz", {}, [&](std::string_view text, auto) { all += text; });
  CHECK(all == "onetwo");
}
