#include "runtime/tokenizer/bpe_vocabulary.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using json = nlohmann::json;

namespace {

/// A valid pair of files; each test damages one place.
struct saved_vocabulary {
  saved_vocabulary() {
    bpe_trainer trainer;
    trainer.add("aab aab ab");
    made = trainer.train({.vocabulary_size = 259});
    save_bpe_vocabulary(made, folder.path());
    tokens = json::parse(read_text(vocab_file));
  }

  bpe_vocabulary load() const { return load_bpe_vocabulary(vocab_file, merge_file); }

  std::string complaint(const json& spoilt) const {
    return complaint_of(spoilt.dump(), "#version: 0.2\na b\n");
  }
  std::string complaint_of(const std::string& vocab, const std::string& merges) const {
    write_text(vocab_file, vocab);
    write_text(merge_file, merges);
    try {
      load();
    } catch (const input_error& failure) {
      return failure.what();
    }
    return "no complaint";
  }

  troupe::tests::scratch_folder folder;
  std::filesystem::path vocab_file = folder / "vocab.json";
  std::filesystem::path merge_file = folder / "merges.txt";
  bpe_vocabulary made;
  json tokens;
};

}  // namespace

TEST_CASE("a saved vocabulary loads unchanged, and saves as the same bytes", "[tokenizer]") {
  const saved_vocabulary saved;
  const auto loaded = saved.load();
  CHECK(loaded == saved.made);
  save_bpe_vocabulary(loaded, saved.folder / "deeper" / "again");
  for (const char* name : {"vocab.json", "merges.txt"})
    CHECK(read_text(saved.folder / name) == read_text(saved.folder / "deeper/again" / name));
}

TEST_CASE("the files follow docs/formats/tokenizer.md", "[tokenizer]") {
  const saved_vocabulary saved;
  CHECK(read_text(saved.merge_file) == "#version: 0.2\na b\na ab\n");
  const auto vocab = read_text(saved.vocab_file);
  CHECK(vocab.starts_with(R"({"!": 0, "\"": 1, "#": 2, )"));
  CHECK(vocab.ends_with("\"\u0143\": 255, \"ab\": 256, \"aab\": 257, \"<|endoftext|>\": 258}\n"));
}

TEST_CASE("a missing, empty or damaged vocabulary file is refused by name", "[tokenizer]") {
  const saved_vocabulary saved;
  CHECK_THROWS_WITH(load_bpe_vocabulary(saved.folder / "none.json", saved.merge_file),
                    ContainsSubstring("none.json") && ContainsSubstring("No such file"));
  CHECK_THAT(saved.complaint_of("", ""),
             ContainsSubstring("vocab.json") && ContainsSubstring("it is empty"));
  CHECK_THAT(saved.complaint_of(" \n", ""), ContainsSubstring("it is empty"));
  CHECK_THAT(saved.complaint_of("{\"a\": 0,", ""),
             ContainsSubstring("not JSON") && ContainsSubstring("line 1"));
  CHECK_THAT(saved.complaint_of("{\"\xFF\": 0}", ""), ContainsSubstring("not JSON"));
  CHECK_THAT(saved.complaint_of("[1, 2]", ""), ContainsSubstring("JSON array, not an object"));
  CHECK_THAT(saved.complaint_of(R"({"a": 0, "b": 1, "a": 2})", ""),
             ContainsSubstring("token \"a\" occurs twice"));
}

TEST_CASE("ids must be the numbers from 0, each once", "[tokenizer]") {
  const saved_vocabulary saved;
  const auto with_id = [&](const json& id) {
    auto spoilt = saved.tokens;
    spoilt["ab"] = id;
    return saved.complaint(spoilt);
  };
  CHECK(with_id(256) == "no complaint");
  CHECK_THAT(with_id(300), ContainsSubstring("\"ab\" has the id 300; the ids of 259 tokens"));
  CHECK_THAT(with_id(-1), ContainsSubstring("has the id -1"));
  CHECK_THAT(with_id(1.5), ContainsSubstring("has the id 1.5"));
  CHECK_THAT(with_id("256"), ContainsSubstring("has the id \"256\""));
  CHECK_THAT(with_id(nullptr), ContainsSubstring("has the id null"));
  CHECK_THAT(with_id(257), ContainsSubstring("have the same id 257"));
}

TEST_CASE("a vocabulary needs all bytes and an end of document", "[tokenizer]") {
  const saved_vocabulary saved;
  const auto renamed = [&](const std::string& from) {
    auto spoilt = saved.tokens;
    spoilt["renamed"] = spoilt[from];
    spoilt.erase(from);
    return saved.complaint(spoilt);
  };
  CHECK_THAT(renamed("\u0120"), ContainsSubstring("for byte 0x20"));
  CHECK_THAT(renamed("<|endoftext|>"), ContainsSubstring("for the end of a document"));
}

TEST_CASE("an invalid merge is refused with its line", "[tokenizer]") {
  const saved_vocabulary saved;
  const auto with
      = [&](const std::string& merges) { return saved.complaint_of(saved.tokens.dump(), merges); };
  CHECK_THAT(with(""), ContainsSubstring("merges.txt") && ContainsSubstring("it is empty"));
  CHECK_THAT(with("#version: 0.2\na b\nab\n"),
             ContainsSubstring("line 3 is \"ab\"; expected two tokens"));
  CHECK_THAT(with("a b a\n"), ContainsSubstring("line 1 is \"a b a\""));
  CHECK_THAT(with(" ab\n"), ContainsSubstring("line 1"));
  CHECK_THAT(with("a \n"), ContainsSubstring("line 1"));
  CHECK_THAT(with("a b\n\na ab\n"), ContainsSubstring("line 2 is \"\""));
  CHECK_THAT(with("a b\na xyz\n"),
             ContainsSubstring("line 2 is \"a xyz\"") && ContainsSubstring("no token \"xyz\""));
  CHECK_THAT(with("a b\nb a\n"), ContainsSubstring("no token \"ba\""));
  CHECK_THAT(with("a b\na ab\na b\n"), ContainsSubstring("line 3 repeats line 1"));
  write_text(saved.vocab_file, saved.tokens.dump());
  CHECK_THROWS_WITH(load_bpe_vocabulary(saved.vocab_file, saved.folder / "none.txt"),
                    ContainsSubstring("none.txt"));
}

TEST_CASE("merges load without a version line, with CRLF, and without a last newline",
          "[tokenizer]") {
  const saved_vocabulary saved;
  for (const char* merges : {"a b\na ab", "#version: 0.2\r\na b\r\na ab\r\n", "a b\na ab\n\n"}) {
    write_text(saved.merge_file, merges);
    CHECK(saved.load() == saved.made);
  }
}
