#include "runtime/tokenizer/bpe_trainer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace troupe::runtime;
using lines = std::vector<std::string>;

namespace {

lines merge_lines(const bpe_vocabulary& x) {
  lines found;
  for (const auto& merge : x.merges)
    found.push_back(x.tokens[std::size_t(merge.left)] + " " + x.tokens[std::size_t(merge.right)]);
  return found;
}

bpe_vocabulary trained(const lines& documents, bpe_training settings) {
  bpe_trainer trainer;
  for (const auto& document : documents)
    trainer.add(document);
  return trainer.train(settings);
}

std::string random_word(std::mt19937& random, unsigned letters) {
  std::string word;
  for (auto size = 1 + random() % 12; size > 0; --size)
    word += static_cast<char>('a' + random() % letters);
  return word;
}

}  // namespace

TEST_CASE("the merges of a tiny text equal those computed by hand", "[tokenizer]") {
  // Words aab, _aab, _ab: (a,b) 3 times, (a,a) and (_,a) twice. Merged to a ab, _ a ab, _ ab:
  // (a,ab) twice, the rest once. Merged to aab, _ aab, _ ab: no pair twice.
  const auto made = trained({"aab aab ab"}, {.vocabulary_size = 1000});
  CHECK(merge_lines(made) == lines{"a b", "a ab"});
  CHECK(made.tokens.size() == 259);
  CHECK(made.tokens[256] == "ab");
  CHECK(made.tokens[257] == "aab");
  CHECK(made.tokens[258] == "<|endoftext|>");
  CHECK(made.end_of_document == 258);
  CHECK(made.byte_ids['a'] == 64);
}

TEST_CASE("BPE-ORDER: with equal counts the smaller left id is first, then the smaller right id",
          "[tokenizer]") {
  CHECK(merge_lines(trained({"dc", "ba"}, {.vocabulary_size = 300, .minimum_count = 1}))
        == lines{"b a", "d c"});
  CHECK(merge_lines(trained({"ad", "ac"}, {.vocabulary_size = 300, .minimum_count = 1}))
        == lines{"a c", "a d"});
  // After "a b" and "a ab" there are _ ab and _ aab, once each: id 256 before 257.
  CHECK(merge_lines(trained({"aab aab ab"}, {.vocabulary_size = 300, .minimum_count = 1}))
        == lines{"a b", "a ab", "\u0120 ab", "\u0120 aab"});
}

TEST_CASE("overlapping pairs are merged from the left", "[tokenizer]") {
  // aaaaa -> aa aa a; then (aa,a) before (aa,aa) by id: aa aaa; then the rest.
  CHECK(merge_lines(trained({"aaaaa"}, {.vocabulary_size = 300, .minimum_count = 1}))
        == lines{"a a", "aa a", "aa aaa"});
}

TEST_CASE("the vocabulary has the requested size, at least 257", "[tokenizer]") {
  CHECK(trained({"abc abc abc"}, {.vocabulary_size = 258}).tokens.size() == 258);
  CHECK(trained({"abc abc abc"}, {.vocabulary_size = 257}).merges.empty());
  CHECK(trained({}, {.vocabulary_size = 500}).tokens.size() == 257);
  CHECK_THROWS_AS(trained({"abc"}, {.vocabulary_size = 256}), input_error);
  CHECK_THROWS_AS(bpe_trainer(0), input_error);
}

TEST_CASE("no word spans two documents, and invalid bytes are never merged", "[tokenizer]") {
  CHECK(trained({"a", "b", "a", "b"}, {.vocabulary_size = 300}).merges.empty());
  CHECK(trained({"\xFF\xFE\xFF\xFE\xFF\xFE"}, {.vocabulary_size = 300}).merges.empty());
}

TEST_CASE("the order of documents does not matter", "[tokenizer]") {
  std::mt19937 random(11);
  lines documents;
  for (int i = 0; i < 500; ++i)
    documents.push_back(random_word(random, 4) + " " + random_word(random, 4));
  const auto made = trained(documents, {.vocabulary_size = 400});
  std::shuffle(documents.begin(), documents.end(), random);
  CHECK(trained(documents, {.vocabulary_size = 400}) == made);
}

TEST_CASE("incremental counts equal counts computed again for each merge", "[tokenizer]") {
  std::mt19937 random(13);
  for (int round = 0; round < 20; ++round) {
    lines documents;
    for (int i = 0; i < 60; ++i)
      documents.push_back(random_word(random, 2 + unsigned(round) % 3));
    const auto made = trained(documents, {.vocabulary_size = 330, .minimum_count = 1});

    std::vector<std::vector<std::int32_t>> words;
    for (const auto& document : documents) {
      words.emplace_back();
      for (const char letter : document)
        words.back().push_back(made.byte_ids[static_cast<unsigned char>(letter)]);
    }
    for (const auto& merge : made.merges) {
      std::map<std::pair<std::int32_t, std::int32_t>, int> counts;
      for (const auto& word : words)
        for (std::size_t i = 0; i + 1 < word.size(); ++i)
          ++counts[{word[i], word[i + 1]}];
      REQUIRE_FALSE(counts.empty());
      auto best = counts.begin();
      for (auto it = counts.begin(); it != counts.end(); ++it)
        if (it->second > best->second)
          best = it;
      const auto [left, right] = best->first;
      REQUIRE(left == merge.left);
      REQUIRE(right == merge.right);
      for (auto& word : words)
        for (std::size_t i = 0; i + 1 < word.size(); ++i)
          if (word[i] == left && word[i + 1] == right) {
            word[i] = merge.result;
            word.erase(word.begin() + std::ptrdiff_t(i) + 1);
          }
    }
  }
}

TEST_CASE("BPE-UNIQUE: no token results from two merges", "[tokenizer]") {
  std::mt19937 random(17);
  for (unsigned round = 0; round < 60; ++round) {
    lines words;
    for (unsigned i = 0; i < 10 * round; ++i)
      words.push_back(random_word(random, 1 + round % 4));
    const auto made = trained(words, {.vocabulary_size = 3000, .minimum_count = 1});
    CHECK(made.merges.size() == made.tokens.size() - 257);
    CHECK(std::set(made.tokens.begin(), made.tokens.end()).size() == made.tokens.size());
    const bpe_tokenizer t(made);
    for (const auto& word : words)
      CHECK(t.encode(word).size() == 1);  // at a minimum count of 1 every word becomes a token
  }
}

TEST_CASE("memory is bounded by dropping the rarest words", "[tokenizer]") {
  bpe_trainer trainer(8);
  for (int i = 0; i < 3; ++i)
    trainer.add("often");
  for (int i = 0; i < 100; ++i) {
    trainer.add(std::string(1, static_cast<char>('a' + i % 26)) + "rare");
    CHECK(trainer.distinct_words() <= 8);
  }
  const auto tokens = trainer.train({.vocabulary_size = 300, .minimum_count = 3}).tokens;
  CHECK(std::count(tokens.begin(), tokens.end(), "often") == 1);
  trainer.add(std::string(1000, 'x'));  // more than 8 * 16 bytes
  CHECK(trainer.distinct_words() <= 1);
}

TEST_CASE("training reports its progress", "[tokenizer]") {
  std::vector<std::uint64_t> told;
  trained({"abc abc abc"}, {.vocabulary_size = 259, .progress = [&](auto done, auto total) {
                              CHECK(total == 259);
                              told.push_back(done);
                            }});
  CHECK(told == std::vector<std::uint64_t>{258, 259});
}
