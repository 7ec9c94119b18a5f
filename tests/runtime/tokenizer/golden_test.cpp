// Words, merges and encodings, compared with Hugging Face's (tests/golden/tokenizer/make.py).

#include "runtime/file/file.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using json = nlohmann::json;

namespace {

const json& golden() {
  static const auto loaded
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/tokenizer/golden.json"));
  return loaded;
}

bpe_vocabulary trained() {
  bpe_trainer trainer;
  for (const auto& document : golden().at("training"))
    trainer.add(document.get<std::string>());
  return trainer.train({.vocabulary_size = golden().at("vocabulary_size").get<std::int32_t>()});
}

}  // namespace

TEST_CASE("training gives the same tokens and merges as Hugging Face's", "[tokenizer][golden]") {
  const auto made = trained();
  CHECK(made.tokens == golden().at("tokens").get<std::vector<std::string>>());
  std::vector<std::string> merges;
  for (const auto& merge : made.merges)
    merges.push_back(made.tokens[std::size_t(merge.left)] + " "
                     + made.tokens[std::size_t(merge.right)]);
  CHECK(merges == golden().at("merges").get<std::vector<std::string>>());
}

TEST_CASE("words are split as by GPT-2's expression", "[tokenizer][golden]") {
  REQUIRE(golden().at("cases").size() == 64);
  const pre_tokenizer rule;
  for (const auto& one : golden().at("cases")) {
    const auto text = one.at("text").get<std::string>();
    INFO(one.at("text"));
    std::vector<std::string> words;
    word_cursor cursor(rule, text);
    for (auto word = cursor.next(); !word.empty(); word = cursor.next())
      words.emplace_back(word);
    CHECK(words == one.at("words").get<std::vector<std::string>>());
  }
}

TEST_CASE("texts are encoded to Hugging Face's ids", "[tokenizer][golden]") {
  const bpe_tokenizer t(trained());
  for (const auto& one : golden().at("cases")) {
    const auto text = one.at("text").get<std::string>();
    INFO(one.at("text"));
    const auto ids = t.encode(text);
    CHECK(ids == one.at("ids").get<std::vector<std::int32_t>>());
    CHECK(t.decode(ids) == text);
  }
}
