// Samples of conversations: whole conversations, loss on answers, attention and positions of their
// own.

#include "runtime/data/sft_dataset.hpp"

#include "runtime/core/error.hpp"
#include "tests/runtime/data/compressed.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/disk_faults.hpp"
#include "tests/support/sample_row.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr std::int64_t S = 8;

/// Questions in small letters and answers in capitals: "abC" asks ab and answers C.
std::filesystem::path write_talks(const scratch_folder& folder,
                                  const std::vector<std::string>& talks,
                                  unsigned workers = 1) {
  std::ofstream out(folder / "talks.jsonl");
  for (const auto& talk : talks) {
    const auto is_answer = [](char c) { return c >= 'A' && c <= 'Z'; };
    nlohmann::json messages = nlohmann::json::array();
    for (std::size_t i = 0; i < talk.size();) {
      auto end = i;
      while (end < talk.size() && is_answer(talk[end]) == is_answer(talk[i]))
        ++end;
      messages.push_back({{"role", is_answer(talk[i]) ? "assistant" : "user"},
                          {"content", talk.substr(i, end - i)}});
      i = end;
    }
    out << nlohmann::json({{"messages", messages}}).dump() << "\n";
  }
  out.close();
  const byte_tokenizer bytes;
  const auto prompt = template_of(conversation_format::identity);
  return write_conversations(
             {.text = bytes, .prompt = prompt, .format = conversation_format::identity},
             {.inputs = {folder / "talks.jsonl"},
              .output_prefix = folder / "d",
              .workers = workers})
      .prefix;
}

sft_dataset open(const std::filesystem::path& prefix,
                 std::optional<std::uint64_t> samples,
                 std::uint32_t seed = 1) {
  return {std::make_shared<conversation_source>(prefix),
          split_matrix("1,0,0"),
          data_split::train,
          {.sequence_length = S, .samples = samples, .seed = seed, .vocabulary = 258}};
}

const std::vector<std::string> talks
    = {"abC", "abCD", "aB", "abcDeF", "abcdEFGHIJ", "aBcD", "abcdefghiJ", "aaaAAaa"};

}  // namespace

TEST_CASE("a conversation has loss where the next token belongs to an answer", "[data]") {
  const scratch_folder folder;
  const auto data = open(write_talks(folder, {"abCDeF"}), {});
  REQUIRE(data.size() == 1);
  const auto x = row_of(data, 0);
  CHECK(x.tokens == std::vector<std::int32_t>{'a', 'b', 'C', 'D', 'e', 'F', 0, 0});
  CHECK(x.labels == std::vector<std::int32_t>{'b', 'C', 'D', 'e', 'F', 0, 0, 0});
  CHECK(x.mask == std::vector<float>{0, 1, 1, 0, 1, 0, 0, 0});
  CHECK(x.positions == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 0, 1});
  CHECK(x.cuts == std::vector<std::int32_t>{6});
}

TEST_CASE("an answer at the start of a conversation is not a label of the previous one", "[data]") {
  const scratch_folder folder;
  const auto data = open(write_talks(folder, {"AB", "AB"}), {});
  REQUIRE(data.size() == 1);
  const auto x = row_of(data, 0);
  CHECK(x.mask == std::vector<float>{1, 0, 1, 0, 0, 0, 0, 0});
  CHECK(x.positions == std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 2, 3});
  CHECK(x.cuts == std::vector<std::int32_t>{2, 4});
}

TEST_CASE("a conversation that is too long for a sample keeps its beginning", "[data]") {
  const scratch_folder folder;
  const auto data = open(write_talks(folder, {"abcdEFGHIJ"}), {});
  const auto x = row_of(data, 0);
  CHECK(x.tokens == std::vector<std::int32_t>{'a', 'b', 'c', 'd', 'E', 'F', 'G', 'H'});
  CHECK(x.mask == std::vector<float>{0, 0, 0, 1, 1, 1, 1, 0});
  CHECK(x.cuts.empty());
  const auto mixed = open(write_talks(folder, {"abcdefghiJ", "abcdefgH"}), {});
  REQUIRE(mixed.size() == 2);
  const std::vector<float> none(S, 0);
  CHECK((row_of(mixed, 0).mask == none) != (row_of(mixed, 1).mask == none));
}

TEST_CASE("a data set is refused if no conversation has an answer within a sample", "[data]") {
  const scratch_folder folder;
  const auto prefix
      = write_talks(folder, {"abcdefghijK", "abcdefghL"});  // answers from 8 and 10 on
  CHECK_THROWS_MATCHES(
      open(prefix, {}), input_error, MessageMatches(ContainsSubstring("nothing to learn")));
  const conversation_source source(prefix);
  CHECK_FALSE(has_label(source, 1, S));
  CHECK(has_label(source, 1, S + 1));
  CHECK(open(write_talks(folder, {"abcdefghijK", "abcdefgHL"}), {}).size() == 2);
}

TEST_CASE("the rest of a sample after its conversations is padding", "[data]") {
  const scratch_folder folder;
  const auto data = open(write_talks(folder, talks), {});
  std::int64_t padding = std::int64_t(data.size()) * S;
  for (const auto& talk : talks)
    padding -= std::min<std::int64_t>(std::int64_t(talk.size()), S);
  CHECK(padding > 0);
  CHECK(data.padding() == padding);
  // Counts requested samples only, not the one that is still being filled.
  const auto some = open(folder / "d_conversations", 3);
  std::int64_t seen = 0;
  for (std::uint64_t i = 0; i < some.size(); ++i)
    seen += std::ranges::count(row_of(some, i).tokens, 0);  // no byte of a text is 0
  CHECK(some.padding() == seen);
}

TEST_CASE("each epoch has every conversation once, whole, in another order", "[data]") {
  const scratch_folder folder;
  const auto data = open(write_talks(folder, talks), 40);
  REQUIRE(data.size() >= 40);
  std::vector<std::string> read;
  for (std::uint64_t i = 0; i < data.size(); ++i) {
    const auto x = row_of(data, i);
    std::size_t begin = 0;
    auto ends = x.cuts;
    if (ends.empty() || x.tokens[std::size_t(ends.back())] != 0)
      ends.push_back(std::int32_t(S));
    for (const auto end : ends) {
      read.emplace_back(x.tokens.begin() + std::ptrdiff_t(begin), x.tokens.begin() + end);
      for (auto t = begin; t < std::size_t(end); ++t)
        CHECK(x.positions[t] == std::int32_t(t - begin));
      begin = std::size_t(end);
    }
  }
  std::vector<std::vector<std::string>> epochs;
  for (std::size_t k = 0; k + talks.size() <= read.size(); k += talks.size())
    epochs.emplace_back(read.begin() + std::ptrdiff_t(k),
                        read.begin() + std::ptrdiff_t(k + talks.size()));
  auto expected = talks;
  for (auto& x : expected)
    x.resize(std::min(x.size(), std::size_t(S)));
  std::ranges::sort(expected);
  REQUIRE(epochs.size() > 2);
  CHECK(epochs[0] != epochs[1]);
  for (auto epoch : epochs) {
    std::ranges::sort(epoch);
    CHECK(epoch == expected);
  }
}

TEST_CASE("a sample depends on files, seed and number only", "[data]") {
  const scratch_folder folder;
  const auto prefix = write_talks(folder, talks);
  const auto few = open(prefix, 5), many = open(prefix, 100), other = open(prefix, 100, 2);
  bool differs = false;
  for (std::uint64_t i = 5; i-- > 0;) {
    CHECK(row_of(few, i) == row_of(many, i));
    differs = differs || row_of(many, i) != row_of(other, i);
  }
  CHECK(differs);
}

TEST_CASE("the files of conversations do not depend on threads", "[data]") {
  const scratch_folder one, four;
  const auto a = write_talks(one, talks, 1), b = write_talks(four, talks, 4);
  for (const auto* name : {"", "_answers"})
    for (const auto* extension : {".bin", ".idx"})
      CHECK(read_text(a.string() + name + extension) == read_text(b.string() + name + extension));
}

TEST_CASE("conversations can be compressed", "[data]") {
  const scratch_folder plain;
  const auto as_it_is = write_talks(plain, talks);
  const auto text = read_text(plain / "talks.jsonl");
  const byte_tokenizer bytes;
  const auto prompt = template_of(conversation_format::identity);
  for (const auto& packed :
       {gzip(text), zstd(text), gzip(text.substr(0, 99)) + gzip(text.substr(99))}) {
    const scratch_folder folder;
    write_text(folder / "talks", packed);
    const auto made = write_conversations(
        {.text = bytes, .prompt = prompt, .format = conversation_format::identity},
        {.inputs = {folder / "talks"}, .output_prefix = folder / "d"});
    for (const auto* name : {"", "_answers"})
      for (const auto* extension : {".bin", ".idx"})
        CHECK(read_text(made.prefix.string() + name + extension)
              == read_text(as_it_is.string() + name + extension));
    write_text(folder / "talks", packed.substr(0, packed.size() - 3));
    CHECK_THROWS_MATCHES(
        write_conversations(
            {.text = bytes, .prompt = prompt, .format = conversation_format::identity},
            {.inputs = {folder / "talks"}, .output_prefix = folder / "cut"}),
        input_error,
        MessageMatches(ContainsSubstring("talks'")));
    CHECK_FALSE(std::filesystem::exists(bin_path(folder / "cut_conversations")));
  }
}

TEST_CASE("conversations without an answer are skipped and counted, or refused", "[data]") {
  const scratch_folder folder;
  const std::string good = R"({"messages": [{"role": "assistant", "content": "A"}]})"
                           "\n";
  const std::string none = R"({"messages": [{"role": "user", "content": "b"}]})"
                           "\n";
  const std::string half = R"({"messages": [{"role": "system", "content": ""},
    {"role": "assistant", "content": "CD"}, {"role": "system", "content": "e"}]})";
  const auto write = [&](const std::string& text, bool strict = false, unsigned workers = 1) {
    write_text(folder / "t.jsonl", text);
    const byte_tokenizer bytes;
    const auto prompt = template_of(conversation_format::identity);
    return write_conversations(
        {.text = bytes, .prompt = prompt, .format = conversation_format::identity},
        {.inputs = {folder / "t.jsonl"},
         .output_prefix = folder / "d",
         .workers = workers,
         .strict = strict});
  };
  const auto mixed
      = good + none + "{\"messages\": []}\n" + nlohmann::json::parse(half).dump() + "\n";
  for (const auto workers : {1U, 3U}) {
    const auto made = write(mixed, false, workers);
    CHECK(made.conversations == 2);
    CHECK(made.answer_tokens == 3);
    CHECK(made.skipped == 3);
    const auto at = [&](int line) {
      return "line " + std::to_string(line) + " of '" + (folder / "t.jsonl").string() + "'";
    };
    CHECK(made.skipped_at == std::vector<std::string>{at(2), at(3), at(4)});
    CHECK(conversation_source(made.prefix).tokens().sequences() == 2);
  }
  CHECK(write(good + none + none + none + none + none + none).skipped_at.size() == 5);
  CHECK_THROWS_MATCHES(
      write(mixed, true),
      input_error,
      MessageMatches(ContainsSubstring("line 2: it has no message of the role assistant")));
  CHECK_THROWS_MATCHES(write(none + none),
                       input_error,
                       MessageMatches(ContainsSubstring("2 conversations were skipped")
                                      && ContainsSubstring("no message of the role assistant")));
}

TEST_CASE("a JSON array of conversations gives the data set of the same lines", "[data]") {
  const scratch_folder plain;
  const auto as_lines = write_talks(plain, talks);
  auto text = read_text(plain / "talks.jsonl");
  text.pop_back();
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 2))
    text.replace(at, 1, ",\n");
  const byte_tokenizer bytes;
  const auto prompt = template_of(conversation_format::identity);
  const auto write = [&](const std::filesystem::path& path, const std::string& content) {
    write_text(path, content);
    return write_conversations(
        {.text = bytes, .prompt = prompt, .format = conversation_format::identity},
        {.inputs = {path}, .output_prefix = path});
  };
  const auto indented = nlohmann::json::parse("[" + text + "]").dump(2);
  const scratch_folder folder;
  for (const auto& content :
       {"[" + text + "]", " \n[" + text + "\n]\n", indented, gzip(indented)}) {
    const auto made = write(folder / "talks.json", content);
    for (const auto* name : {"", "_answers"})
      for (const auto* extension : {".bin", ".idx"})
        CHECK(read_text(made.prefix.string() + name + extension)
              == read_text(as_lines.string() + name + extension));
  }
  CHECK_THROWS_MATCHES(write(folder / "bad.json", "[" + text + ",\n\n{\"a\": 1}]"),
                       input_error,
                       MessageMatches(ContainsSubstring("bad.json', record 9 (line 10): ")));
}

TEST_CASE("an invalid line of conversations is named, and leaves no files", "[data]") {
  const scratch_folder folder;
  std::ofstream(folder / "bad.jsonl") << R"({"messages": [{"role": "assistant", "content": "x"}]})"
                                      << "\n\n{\"messages\": 3}\n";
  const byte_tokenizer bytes;
  const auto prompt = template_of(conversation_format::identity);
  CHECK_THROWS_MATCHES(
      write_conversations(
          {.text = bytes, .prompt = prompt, .format = conversation_format::identity},
          {.inputs = {folder / "bad.jsonl"}, .output_prefix = folder / "d"}),
      input_error,
      MessageMatches(ContainsSubstring("bad.jsonl', line 3: ")));
  CHECK_FALSE(std::filesystem::exists(bin_path(folder / "d_conversations")));
  CHECK_FALSE(std::filesystem::exists(idx_path(folder / "d_conversations_answers")));
}

TEST_CASE("conversations without their file of answers are refused", "[data]") {
  const scratch_folder folder, other;
  const auto prefix = write_talks(folder, talks);
  const auto copy = [&](const std::filesystem::path& from) {
    for (const auto* extension : {".bin", ".idx"})
      std::filesystem::copy_file(from.string() + extension,
                                 answers_prefix(prefix).string() + extension,
                                 std::filesystem::copy_options::overwrite_existing);
  };
  const auto fewer = write_talks(other, {"aB", "aB"});
  copy(answers_prefix(fewer));
  CHECK_THROWS_MATCHES(conversation_source(prefix),
                       input_error,
                       MessageMatches(ContainsSubstring("has the answers of")));
  copy(prefix);  // data instead of answer ranges
  const conversation_source wrong(prefix);
  CHECK_THROWS_MATCHES(
      wrong.answers(0), input_error, MessageMatches(ContainsSubstring("not ascending ranges")));
  std::filesystem::remove(idx_path(answers_prefix(prefix)));
  CHECK_THROWS_MATCHES(conversation_source(prefix),
                       input_error,
                       MessageMatches(ContainsSubstring("troupe conversations")));
}

TEST_CASE("tokens and answers of two runs are never combined, whatever call fails between",
          "[data]") {
  const auto what_stands = [](const std::filesystem::path& prefix) {
    const conversation_source x(prefix);
    std::vector<std::int32_t> ids(3);
    x.tokens().get(0, 0, ids);
    return std::pair(ids, x.answers(0));
  };
  const auto first = [&] {
    const scratch_folder folder;
    return what_stands(write_talks(folder, {"abC"}));
  }();
  const auto second = [&] {
    const scratch_folder folder;
    return what_stands(write_talks(folder, {"aBC"}));
  }();
  const auto in_a_row = GENERATE(1U, 1000U);
  std::uint64_t n = 1;
  for (bool done = false; !done; ++n) {
    const scratch_folder folder;
    const auto prefix = write_talks(folder, {"abC"});
    {
      const planted_disk_fault fault(
          {.below = (folder / "d").string(), .nth = n, .error = EIO, .count = in_a_row});
      try {
        write_talks(folder, {"aBC"});
        done = true;
      } catch (const io_error&) {
      }
    }
    INFO("call " << n);
    try {
      const auto found = what_stands(prefix);
      CHECK((found == first || found == second));
    } catch (const input_error&) {  // one of the two is missing
    }
  }
  CHECK(n > 8);  // number of different failing calls
}

TEST_CASE("SFT-1: a row has room for one sequence of conversations", "[data][invariant]") {
  const scratch_folder folder;
  const auto data = open(write_talks(folder, talks), {});
  CHECK_BREAKS("SFT-1", fill_other_length(data, S - 1));
}
