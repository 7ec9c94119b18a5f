#include "runtime/inference/beam_search.hpp"

#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

using namespace troupe::runtime;

namespace {

using words = std::vector<std::int32_t>;

/// The logits of tests/golden/beams/make.py.
struct made_up_logits {
  std::uint32_t salt = 0;
  std::int64_t vocabulary = 0;
  words ends = {};
  double end_bias = 0;

  float operator()(const words& tokens, std::int32_t word) const {
    const auto n = tokens.size();
    auto x = std::uint32_t(tokens[n - 1]) * 7919U + std::uint32_t(tokens[n - 2]) * 104729U
             + std::uint32_t(n) * 1299721U + std::uint32_t(word) * 15485863U + salt * 32452843U;
    for (const auto factor : {2246822519U, 3266489917U})
      x = (x ^ (x >> 15U)) * factor;
    return float(double(x >> 9U) / 0x1p20 + double(std::ranges::count(ends, word)) * end_bias);
  }
};

/// Runs a search whose logits have `unused` further columns that no text may have.
std::vector<beam_text> searched(const beam_settings& settings,
                                const words& prompt,
                                std::int64_t most,
                                const made_up_logits& logits,
                                std::int64_t unused = 0) {
  beam_search search(settings, most, logits.vocabulary, logits.ends);
  while (!search.done()) {
    std::vector<float> all;
    for (const auto& beam : search.beams()) {
      auto tokens = prompt;
      tokens.insert(tokens.end(), beam.tokens.begin(), beam.tokens.end());
      for (std::int32_t word = 0; word < logits.vocabulary; ++word)
        all.push_back(logits(tokens, word));
      all.insert(all.end(), std::size_t(unused), 1e6F);
    }
    search.advance(all, logits.vocabulary + unused, logits.vocabulary);
  }
  return search.texts();
}

beam_stop stop_named(const std::string& name) {
  return name == "full" ? beam_stop::full : name == "never" ? beam_stop::never : beam_stop::likely;
}

}  // namespace

TEST_CASE("beam searches find the texts and scores of transformers", "[inference][golden]") {
  std::ifstream file(troupe::tests::source_dir() + "/tests/golden/beams/golden.json");
  const auto golden = nlohmann::json::parse(file);
  REQUIRE(golden["cases"].size() == 132);
  for (const auto& x : golden["cases"]) {
    const made_up_logits logits{x["salt"], x["vocabulary"], x["ends"].get<words>(), x["end_bias"]};
    CAPTURE(logits.salt);
    const std::int64_t beams = x["beams"];
    const beam_settings settings{.beams = beams,
                                 .returned = beams,
                                 .length_penalty = x["length_penalty"],
                                 .stop = stop_named(x["stop"])};
    const auto found = searched(settings, x["prompt"], x["most"], logits, 3);
    REQUIRE(found.size() == x["texts"].size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      auto tokens = x["texts"][i]["tokens"].get<words>();
      const bool ended = !tokens.empty() && std::ranges::count(logits.ends, tokens.back()) > 0;
      if (ended)
        tokens.pop_back();
      CHECK(found[i].tokens == tokens);
      CHECK(found[i].ended == ended);
      // A dozen roundings in float of sums below 100, times a length of at most 12^0.5.
      const double score = x["texts"][i]["score"];
      CHECK(std::abs(found[i].score - score) <= 2e-5 * (1 + std::abs(score)));
    }
  }
}

TEST_CASE("one beam finds the greedy text", "[inference]") {
  const made_up_logits logits{.salt = 400, .vocabulary = 19};
  const words prompt = {4, 2};
  const auto found = searched({.beams = 1}, prompt, 20, logits);
  REQUIRE(found.size() == 1);
  auto tokens = prompt;
  for (int i = 0; i < 20; ++i) {
    std::int32_t best = 0;
    for (std::int32_t word = 1; word < 19; ++word)
      if (logits(tokens, word) > logits(tokens, best))
        best = word;
    tokens.push_back(best);
  }
  CHECK(found.front().tokens == words(tokens.begin() + 2, tokens.end()));
  CHECK_FALSE(found.front().ended);
}

TEST_CASE("as many beams as texts find the most probable text of all", "[inference]") {
  const made_up_logits logits{.salt = 401, .vocabulary = 4};
  const words prompt = {1, 2};
  const auto found = searched({.beams = 64, .returned = 64}, prompt, 3, logits);
  REQUIRE(found.size() == 64);
  double best = -1e9;
  words of_best;
  for (std::int32_t i = 0; i < 64; ++i) {
    const words text = {i / 16, i / 4 % 4, i % 4};
    auto tokens = prompt;
    double score = 0;
    for (const auto word : text) {
      double sum = 0;
      for (std::int32_t other = 0; other < 4; ++other)
        sum += std::exp(double(logits(tokens, other)));
      score += double(logits(tokens, word)) - std::log(sum);
      tokens.push_back(word);
    }
    if (score > best) {
      best = score;
      of_best = text;
    }
  }
  CHECK(found.front().tokens == of_best);
  CHECK(std::abs(found.front().score - best / 3) < 1e-12);  // a few roundings in double
  CHECK(std::ranges::is_sorted(found, std::ranges::greater(), &beam_text::score));
}

TEST_CASE("among equal scores the earlier beam comes first, then the smaller id", "[inference]") {
  beam_search search({.beams = 3, .returned = 3}, 2, 4, {});
  search.advance(std::vector<float>(4, 1.0F), 4, 4);
  REQUIRE(search.beams().size() == 3);
  for (std::int32_t i = 0; i < 3; ++i)
    CHECK(search.beams()[std::size_t(i)].tokens == words{i});
  search.advance(std::vector<float>(12, 1.0F), 4, 4);
  REQUIRE(search.done());
  const auto texts = search.texts();
  REQUIRE(texts.size() == 3);
  for (std::int32_t i = 0; i < 3; ++i)
    CHECK(texts[std::size_t(i)].tokens == words{0, i});
}

TEST_CASE("a search has fewer beams where there are fewer texts", "[inference]") {
  beam_search search({.beams = 5, .returned = 5}, 3, 2, {1});
  const std::vector<float> alike(10, 0.0F);
  search.advance(alike, 2, 2);
  CHECK(search.beams().size() == 1);  // the other id ends the text
  search.advance(alike, 2, 2);
  search.advance(alike, 2, 2);
  REQUIRE(search.done());
  CHECK(search.texts().size() == 4);  // three that ended, and one of the largest length
}

TEST_CASE("a beam search keeps its promises", "[inference]") {
  CHECK_BREAKS("BEAM-1", beam_search({.beams = 2, .returned = 3}, 1, 4, {}));
  CHECK_BREAKS("BEAM-1", beam_search({.beams = 0, .returned = 1}, 1, 4, {}));
  beam_search search({.beams = 1}, 1, 4, {});
  CHECK_BREAKS("BEAM-3", search.texts());
  CHECK_BREAKS("BEAM-2", search.advance(std::vector<float>(3), 3, 3));
  search.advance(std::vector<float>(4), 4, 4);
  CHECK_BREAKS("BEAM-2", search.advance(std::vector<float>(4), 4, 4));
}
