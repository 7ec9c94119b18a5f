#include "runtime/data/preprocess.hpp"

#include "tests/runtime/data/golden.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> texts(const std::filesystem::path& prefix) {
  const indexed_dataset data(prefix);
  std::vector<std::string> out;
  for (std::int64_t s = 0; s < data.sequences(); ++s) {
    std::vector<std::int32_t> ids(std::size_t(data.length(s)));
    data.get(s, 0, ids);
    auto& text = out.emplace_back();
    for (const auto id : ids)
      text += id == 256 ? '$' : static_cast<char>(id);
  }
  return out;
}

using list = std::vector<std::string>;
const byte_tokenizer bytes;

}  // namespace

TEST_CASE("a stopped preprocess leaves no files", "[data]") {
  const scratch_folder folder;
  write_text(folder / "text.txt", "1 2 3\n\n4 5\n");
  preprocess_options options{.inputs = {folder / "text.txt"}, .output_prefix = folder / "out/x"};
  options.stop.cancel();
  const auto with = make_tokenizer({.type = "NullTokenizer", .vocabulary_size = 10});
  CHECK_THROWS_AS(preprocess(*with, options), cancelled);
  CHECK(std::filesystem::is_empty(folder / "out"));
}

TEST_CASE("each document becomes a sequence, under Megatron's file name", "[data]") {
  const scratch_folder folder;
  write_text(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n{\"text\": \"two\"}\n");
  write_text(folder / "b.txt", "three\n\nfour\n");
  const auto made = preprocess(bytes,
                               {.inputs = {folder / "a.jsonl", folder / "b.txt"},
                                .output_prefix = folder / "new" / "corpus",
                                .append_eod = true});
  REQUIRE(made.size() == 1);
  CHECK(made[0].prefix == folder / "new" / "corpus_text_document");
  CHECK(made[0].documents == 5);
  CHECK(made[0].tokens == 19);
  CHECK(made[0].bytes == 15);
  CHECK(texts(made[0].prefix) == list{"one$", "two$", "three$", "four$"});
  const indexed_dataset data(made[0].prefix);
  CHECK(data.documents() == 5);  // the empty one has no sequence
  CHECK(data.document_begin(2) == 1);
}

TEST_CASE("each JSON key becomes a data set", "[data]") {
  const scratch_folder folder;
  write_text(folder / "a.jsonl", "{\"q\": \"x\", \"a\": \"yy\"}\n");
  const auto made = preprocess(
      bytes,
      {.inputs = {folder / "a.jsonl"}, .output_prefix = folder / "c", .json_keys = {"q", "a"}});
  REQUIRE(made.size() == 2);
  CHECK(texts(folder / "c_q_document") == list{"x"});
  CHECK(texts(folder / "c_a_document") == list{"yy"});
}

TEST_CASE("the output does not depend on the number of workers", "[data]") {
  const scratch_folder folder;
  std::string input;
  for (int i = 0; i < 70'000; ++i)  // more than one batch
    input += fmt::format("{{\"text\": \"document {} {}\"}}\n", i, std::string(i % 97, 'x'));
  write_text(folder / "a.jsonl", input);
  std::string first;
  for (const unsigned workers : {1U, 2U, 5U}) {
    preprocess(bytes,
               {.inputs = {folder / "a.jsonl"},
                .output_prefix = folder / "c",
                .append_eod = true,
                .workers = workers});
    const auto made
        = read_text(folder / "c_text_document.bin") + read_text(folder / "c_text_document.idx");
    if (first.empty())
      first = made;
    CHECK(made == first);
  }
  CHECK(texts(folder / "c_text_document")[3] == "document 3 xxx$");
}

TEST_CASE("a failure leaves no output and says where it was", "[data]") {
  const scratch_folder folder;
  write_text(folder / "a.jsonl", "{\"text\": \"one\", \"b\": \"x\"}\n{\"text\": \"two\"}\n");
  write_text(folder / "bad.txt", "good\n\nbad\n");
  write_text(folder / "empty.txt", "\n");
  const auto refusal = [&](preprocess_options options) {
    options.output_prefix = folder / "c";
    try {
      preprocess(bytes, options);
    } catch (const input_error& e) {
      for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        CHECK(entry.path().filename().string().front() != 'c');
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refusal({.inputs = {folder / "a.jsonl"}, .json_keys = {"text", "b"}}),
             ContainsSubstring("line 2: it has no key 'b'"));
  CHECK_THAT(refusal({.inputs = {folder / "bad.txt"}, .workers = 2}),
             ContainsSubstring("bad.txt', line 3") && ContainsSubstring("the text is bad"));
  CHECK_THAT(refusal({.inputs = {folder / "empty.txt"}}), ContainsSubstring("no tokens"));
  CHECK_THAT(refusal({.inputs = {folder / "none.txt"}}), ContainsSubstring("No such file"));
  CHECK_THAT(refusal({}), ContainsSubstring("no input"));
  CHECK_THAT(refusal({.inputs = {folder / "a.jsonl"}, .workers = 0}),
             ContainsSubstring("0 workers"));
  CHECK_THAT(refusal({.inputs = {folder / "a.jsonl"}, .json_keys = {"a/b"}}),
             ContainsSubstring("'a/b'"));
  CHECK_THAT(refusal({.inputs = {folder / "a.jsonl"}, .json_keys = {"b", "b"}}),
             ContainsSubstring("twice"));
}

TEST_CASE("sentences are sequences, and documents group them", "[data]") {
  const scratch_folder folder;
  write_text(folder / "a.jsonl",
             "{\"text\": \"One. Two\\ngoes on.\"}\n{\"text\": \" \"}\n{\"text\": [\"A. B\", \"\", "
             "\"c\"]}\n");
  const auto made = preprocess(bytes,
                               {.inputs = {folder / "a.jsonl"},
                                .output_prefix = folder / "c",
                                .append_eod = true,
                                .split_sentences = true});
  CHECK(made[0].prefix == folder / "c_text_sentence");
  CHECK(made[0].empty_documents == 1);
  CHECK(made[0].sequences == 5);
  CHECK(texts(made[0].prefix) == list{"One.", "Two\ngoes on.$", "A.", "B", "c$"});
  const indexed_dataset data(made[0].prefix);
  CHECK(data.documents() == 3);
  CHECK(data.document_begin(1) == 2);
  CHECK(data.document_begin(2) == 2);
  CHECK(data.document_begin(3) == 5);
}

TEST_CASE("a list of strings counts as sentences", "[data]") {
  const scratch_folder folder;
  write_text(folder / "a.jsonl", "{\"text\": [\"A. B\", \"\", \"c\"]}\n");
  preprocess(bytes, {.inputs = {folder / "a.jsonl"}, .output_prefix = folder / "c"});
  CHECK(texts(folder / "c_text_document") == list{"A. B", "c"});
}

TEST_CASE("errors quote files briefly, and without control characters", "[data]") {
  const scratch_folder folder;
  std::string keys = "{\"\\u001b[2J\": 1";
  for (int i = 0; i < 20'000; ++i)
    keys += fmt::format(", \"kéy{}\": 1", i);
  write_text(folder / "keys.jsonl", keys + "}\n");
  write_text(folder / "open.jsonl", "{\"text\": \"" + std::string(1'000'000, 'x') + "\n");
  for (const auto* name : {"keys.jsonl", "open.jsonl"})
    try {
      preprocess(bytes, {.inputs = {folder / name}, .output_prefix = folder / "c"});
      FAIL("accepted");
    } catch (const input_error& e) {
      const std::string said = e.what();
      CHECK(said.size() < 1'000);
      CHECK(said.find('\x1b') == std::string::npos);
      CHECK_THAT(said, ContainsSubstring(name) && ContainsSubstring("..."));
    }
}
