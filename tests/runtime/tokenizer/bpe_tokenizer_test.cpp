#include "runtime/tokenizer/bpe_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>
#include <thread>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;

namespace {

bpe_vocabulary some_vocabulary() {
  bpe_trainer trainer;
  trainer.add(
      "aab aab ab, the actor and the stage; the stage and the actor. 2000 2000 \xC3\xA4\xC3");
  trainer.add("aaaa aaaaaaaa abababab bababa bbb the theatre's theatres");
  return trainer.train({.vocabulary_size = 300});
}

/// Encodes a word by GPT-2's definition: merges the pair of lowest rank everywhere, repeatedly.
ids encode_slowly(const bpe_vocabulary& x, std::string_view word) {
  ids pieces;
  for (const char byte : word)
    pieces.push_back(x.byte_ids[static_cast<unsigned char>(byte)]);
  while (true) {
    auto best = x.merges.end();
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
      best = std::min(best, std::find_if(x.merges.begin(), x.merges.end(), [&](const auto& merge) {
                        return merge.left == pieces[i] && merge.right == pieces[i + 1];
                      }));
    if (best == x.merges.end())
      return pieces;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i)
      if (pieces[i] == best->left && pieces[i + 1] == best->right) {
        pieces[i] = best->result;
        pieces.erase(pieces.begin() + std::ptrdiff_t(i) + 1);
      }
  }
}

std::string random_bytes(std::mt19937& random, std::size_t size) {
  std::string text;
  while (text.size() < size)
    text += static_cast<char>(random());
  return text;
}

}  // namespace

TEST_CASE("BPE-1: no pair of a vocabulary's merges occurs twice", "[tokenizer]") {
  auto vocabulary = some_vocabulary();
  vocabulary.merges.push_back(vocabulary.merges.front());
  CHECK_BREAKS("BPE-1", bpe_tokenizer(vocabulary));
}

TEST_CASE("a word is merged by rank, as computed by hand", "[tokenizer]") {
  bpe_trainer trainer;
  trainer.add("aab aab ab");  // merges: a b -> 256, a ab -> 257
  const bpe_tokenizer t(trainer.train({.vocabulary_size = 300}));
  CHECK(t.encode("ab") == ids{256});
  CHECK(t.encode("aab") == ids{257});
  CHECK(t.encode("aaab") == ids{64, 257});
  CHECK(t.encode("abb ba") == ids{256, 65, 220, 65, 64});
  CHECK(t.encode("").empty());
  CHECK(t.kind() == "GPT2BPETokenizer");
  CHECK(t.vocabulary_size() == 259);
}

TEST_CASE("any bytes survive a round trip", "[tokenizer]") {
  const bpe_tokenizer t(some_vocabulary());
  std::mt19937 random(3);
  for (std::size_t size = 0; size < 300; ++size) {
    const auto text = random_bytes(random, size);
    CHECK(t.decode(t.encode(text)) == text);
  }
  std::string all;
  for (unsigned byte = 0; byte < 256; ++byte)
    all += static_cast<char>(byte);
  CHECK(t.decode(t.encode(all)) == all);
  CHECK(t.decode(t.encode("ä\xC3 中\xE4\xB8 <|endoftext|>")) == "ä\xC3 中\xE4\xB8 <|endoftext|>");
}

TEST_CASE("invalid UTF-8 is encoded byte by byte", "[tokenizer]") {
  const auto vocabulary = some_vocabulary();
  const bpe_tokenizer t(vocabulary);
  CHECK(t.encode("the\xC3 the").size() == 3);
  CHECK(t.encode("the\xC3 the")[1] == vocabulary.byte_ids[0xC3]);
}

TEST_CASE("encoding equals GPT-2's definition, also for merges without training", "[tokenizer]") {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    auto vocabulary = some_vocabulary();
    if (round > 0)
      std::shuffle(vocabulary.merges.begin(), vocabulary.merges.end(), random);
    const bpe_tokenizer t(vocabulary);
    for (int i = 0; i < 100; ++i) {
      std::string word;
      for (auto size = 1 + random() % 40; size > 0; --size)
        word += "abthe"[random() % (i % 2 == 0 ? 2 : 5)];
      const auto expected = encode_slowly(vocabulary, word);
      CHECK(t.encode(word) == expected);
      CHECK(t.encode(word) == expected);  // from the cache
    }
  }
}

TEST_CASE("<|endoftext|> is special on request only", "[tokenizer]") {
  const bpe_tokenizer t(some_vocabulary());
  const std::string text = "the<|endoftext|><|endoftext|> the<|endoftext|>";
  const auto plain = t.encode(text);
  CHECK(std::count(plain.begin(), plain.end(), t.end_of_document()) == 0);
  const auto special = t.encode(text, special_tokens::recognised);
  CHECK(std::count(special.begin(), special.end(), t.end_of_document()) == 3);
  CHECK(special.back() == t.end_of_document());
  CHECK(t.decode(plain) == text);
  CHECK(t.decode(special) == text);
  CHECK(t.decode(ids{t.end_of_document()}) == "<|endoftext|>");
}

TEST_CASE("append keeps earlier ids, and ids outside the vocabulary are refused", "[tokenizer]") {
  const bpe_tokenizer t(some_vocabulary());
  ids found{1, 2};
  t.append("the", found);
  CHECK(found.size() == 3);
  CHECK(found[1] == 2);
  CHECK_THROWS_WITH(t.decode(ids{300}), ContainsSubstring("id 300"));
  CHECK_THROWS_AS(t.decode(ids{-1}), input_error);
}

TEST_CASE("a word of a megabyte does not take quadratic time", "[tokenizer]") {
  const bpe_tokenizer t(some_vocabulary());
  std::string text;
  while (text.size() < 1'000'000)
    text += "abaaababbaaaaaab";
  // Quadratic: some 10^12 steps, beyond the test's time limit.
  CHECK(t.decode(t.encode(text)) == text);
}

TEST_CASE("several threads encode at the same time with the same result", "[tokenizer][threads]") {
  const bpe_tokenizer t(some_vocabulary());
  std::mt19937 random(23);
  std::vector<std::string> texts;
  std::vector<ids> expected;
  for (int i = 0; i < 50; ++i) {
    texts.push_back("the actors " + random_bytes(random, 200) + " the theatre");
    expected.push_back(t.encode(texts.back()));
  }
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (auto& count : wrong)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < texts.size(); ++i)
        count += t.encode(texts[i]) != expected[i];
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("a fingerprint depends on tokens, ids and the order of merges", "[tokenizer]") {
  const auto vocabulary = some_vocabulary();
  const bpe_tokenizer t(vocabulary);
  const troupe::tests::scratch_folder folder;
  t.save(folder.path());
  const auto loaded = make_tokenizer({.type = "GPT2BPETokenizer",
                                      .vocab_file = folder / "vocab.json",
                                      .merge_file = folder / "merges.txt"});
  CHECK(loaded->fingerprint() == t.fingerprint());
  auto other = vocabulary;
  std::swap(other.merges[0], other.merges[1]);
  CHECK_FALSE(bpe_tokenizer(other).fingerprint() == t.fingerprint());
  other = vocabulary;
  other.tokens[256] = "another";
  CHECK_FALSE(bpe_tokenizer(other).fingerprint() == t.fingerprint());
}
