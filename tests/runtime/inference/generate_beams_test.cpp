#include "runtime/inference/generate_beams.hpp"

#include "runtime/family/families.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/inference/score.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/byte_tokenizer.hpp"
#include "tests/support/text_encoder.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <memory>

using namespace troupe::runtime;
using troupe::tests::text_before;
using troupe::tests::text_encoder;
using troupe::tests::text_over_all;

namespace {

using texts_of_beams = std::vector<std::vector<beam_text>>;

/// A model with random weights that are so large that rounding decides no token.
struct searched_model {
  explicit searched_model(const model_spec& spec)
      : stream(troupe::kernels::backend::cpu, 1, memory_pool()),
        model(spec, all_of(spec)),
        store(model.units(), 0, stream.pool()) {
    initialise(store, 23);
  }

  texts_of_beams search(const std::vector<generation_request>& what,
                        const beam_settings& settings,
                        bool cached = true,
                        const given_text* given = nullptr) {
    return generate_beams(model, store, stream, what, settings, cached, given);
  }

  troupe::runtime::stream stream;
  chunk model;
  resident_store store;
};

gpt_config wide_gpt(position_embedding position) {
  auto out = troupe::tests::tiny_gpt(2);
  out.position = position;
  out.sequence = out.positions = 24;
  out.init_std = 0.3;
  return out;
}

generation_request searched_request(std::vector<std::int32_t> prompt, std::int64_t tokens) {
  generation_request out;
  out.prompt = std::move(prompt);
  out.tokens = tokens;
  out.end_of_document = 2;
  out.ids = 20;
  return out;
}

/// Computes every beam from its beginning, alone.
std::vector<beam_text> searched_alone(searched_model& by,
                                      const generation_request& what,
                                      const beam_settings& settings) {
  const auto V = by.model.model().head().vocabulary;
  beam_search search(
      settings, tokens_allowed(what, by.model.model()), what.ids, {what.end_of_document});
  while (!search.done()) {
    std::vector<float> logits;
    for (const auto& beam : search.beams()) {
      auto tokens = what.prompt;
      tokens.insert(tokens.end(), beam.tokens.begin(), beam.tokens.end());
      const auto all = logits_of(by.model, by.store, by.stream, tokens);
      logits.insert(logits.end(), all.end() - V, all.end());
    }
    search.advance(logits, V, V);
  }
  return search.texts();
}

void check_equal(const std::vector<beam_text>& found, const std::vector<beam_text>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].tokens == expected[i].tokens);
    CHECK(found[i].ended == expected[i].ended);
    // Two orders of fp32 sums in each of some dozen logits near 1.
    CHECK(std::abs(found[i].score - expected[i].score) < 1e-4);
  }
}

}  // namespace

TEST_CASE("beams of several prompts together are those of each prompt computed anew",
          "[inference]") {
  const auto position
      = GENERATE(values({position_embedding::learned_absolute, position_embedding::rope}));
  const bool cached = GENERATE(true, false);
  searched_model by(gpt_spec(wide_gpt(position)));
  const beam_settings settings{.beams = 4, .returned = 3};
  const std::vector<generation_request> all = {searched_request({3}, 12),
                                               searched_request({1, 4, 1, 5, 9, 7, 6, 5, 3, 5}, 3),
                                               searched_request({8, 3, 3}, 7)};
  const auto found = by.search(all, settings, cached);
  REQUIRE(found.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    check_equal(found[i], searched_alone(by, all[i], settings));
}

TEST_CASE("a search ends with the learned positions, and reports it", "[inference]") {
  searched_model by(gpt_spec(wide_gpt(position_embedding::learned_absolute)));
  auto what = searched_request({5, 6, 7, 8}, 100);
  what.end_of_document = -1;
  const auto found = by.search({what}, {.beams = 2}).front().front();
  CHECK(found.tokens.size() == 24 - 4 + 1);  // the last token is not an input any more
  CHECK(end_of(found, what, by.model.model()) == generation_end::end_of_positions);
  what.tokens = 3;
  const auto enough = by.search({what}, {.beams = 2}).front().front();
  CHECK(end_of(enough, what, by.model.model()) == generation_end::enough);
  CHECK(end_of({.ended = true}, what, by.model.model()) == generation_end::end_of_document);
}

TEST_CASE("each end token of a request ends its texts", "[inference]") {
  searched_model by(gpt_spec(wide_gpt(position_embedding::rope)));
  auto what = searched_request({5}, 1);
  what.end_of_document = -1;
  const beam_settings settings{.beams = 3, .returned = 3, .length_penalty = 0};
  const auto first = by.search({what}, settings).front();
  // The two most probable first tokens end texts now. No longer text is as probable.
  what.other_ends = first[0].tokens;
  what.end_of_document = first[1].tokens.front();
  what.tokens = 4;
  const auto found = by.search({what}, settings).front();
  REQUIRE(found.size() == 3);
  for (const std::size_t i : {0U, 1U}) {
    CHECK(found[i].ended);
    CHECK(found[i].tokens.empty());
    CHECK(found[i].score == first[i].score);
  }
  for (const auto token : found[2].tokens)
    CHECK((token != what.other_ends.front() && token != what.end_of_document));
}

TEST_CASE("a search that is not wanted any more ends without texts", "[inference]") {
  searched_model by(gpt_spec(wide_gpt(position_embedding::rope)));
  const auto what = searched_request({5}, 10);
  int steps = 0;
  const auto found
      = generate_beams(by.model, by.store, by.stream, {&what, 1}, {.beams = 2}, true, nullptr, [&] {
          return ++steps < 3;
        });
  CHECK(found.empty());
  CHECK(steps == 3);
}

TEST_CASE("an encoder reads its text once, and the decoder continues as in a pass over all",
          "[inference]") {
  const bool cached = GENERATE(true, false);
  const auto reads = std::make_shared<int>(0);
  searched_model by(text_encoder(reads));
  const auto before = text_before();
  std::vector<generation_request> all
      = {searched_request({1}, 6), searched_request({1, 9, 4}, 6), searched_request({1}, 4)};
  all[0].given = {4, 7, 8, 3, 5};
  all[1].given = {9, 3};
  all[2].given = {6, 6, 1};
  for (auto& x : all)
    x.sampling = greedy();
  std::vector<std::vector<std::int32_t>> texts(all.size());
  generate(
      by.model,
      by.store,
      by.stream,
      all,
      [&](std::size_t which, std::int32_t token) {
        texts[which].push_back(token);
        return true;
      },
      cached,
      nullptr,
      &before);
  CHECK(*reads == 1);
  CHECK(texts[0] != texts[2]);
  const auto searched = by.search(all, {.beams = 3, .returned = 3}, cached, &before);
  CHECK(*reads == 2);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const auto judge = text_over_all(by.model, by.store, by.stream, all[i], before);
    CHECK(texts[i] == judge.tokens);
    check_equal(searched[i],
                by.search({all[i]}, {.beams = 3, .returned = 3}, !cached, &before).front());
    check_equal(by.search({all[i]}, {.beams = 1, .length_penalty = 0}, cached, &before).front(),
                {judge});
  }
}

TEST_CASE("families that read a text write that of a pass over both", "[inference]") {
  const troupe::tests::byte_tokenizer tokens("", {"<pad>", "</s>", "<extra_id_0>"});
  for (const auto* const family : families()) {
    const auto config = family->smallest(4);
    const auto before = family->text_before(config, tokens);
    if (!before)
      continue;
    CAPTURE(family->name());
    searched_model by(family->spec(config, {}));
    std::vector<generation_request> all(2, searched_request({1}, 5));
    all[0].given = {4, 7, 8, 3, 5};
    all[1].given = {9, 3};
    const auto found = by.search(all, {.beams = 1, .length_penalty = 0}, true, &*before);
    for (std::size_t i = 0; i < all.size(); ++i)
      check_equal(found[i], {text_over_all(by.model, by.store, by.stream, all[i], *before)});
  }
}

TEST_CASE("a text that an encoder reads has tokens and fits into the positions", "[inference]") {
  const auto reads = std::make_shared<int>(0);
  searched_model by(text_encoder(reads));
  const auto before = text_before();
  auto what = searched_request({1}, 4);
  using Catch::Matchers::ContainsSubstring;
  CHECK_THROWS_WITH(by.search({what}, {}, true, &before), ContainsSubstring("at least one token"));
  what.given.assign(9, 3);
  CHECK_THROWS_WITH(by.search({what}, {}, true, &before),
                    ContainsSubstring("9 tokens") && ContainsSubstring("shorten"));
}

TEST_CASE("streams are given once, to a whole model that only decodes", "[inference]") {
  const auto reads = std::make_shared<int>(0);
  searched_model by(text_encoder(reads));
  auto what = searched_request({1}, 4);
  what.given = {3, 4};
  decoder late(by.model, by.store, by.stream, 4, true);
  read_given(late, by.stream, {&what, 1}, text_before());
  CHECK_BREAKS("DECODE-3", read_given(late, by.stream, {&what, 1}, text_before()));

  auto without = text_encoder(reads);
  without.streams.front().documents = "";
  searched_model padded(without);
  decoder early(padded.model, padded.store, padded.stream, 4, true);
  CHECK_BREAKS("DECODE-4", read_given(early, padded.stream, {&what, 1}, text_before()));

  const std::vector<std::string> encoder = {"encoder"};
  const recompute_plan plan(by.model, {});
  chunk_pass training(by.model, plan, by.stream, by.store, {});
  CHECK_BREAKS("CHUNK-2", training.streams({}, encoder));
  CHECK_BREAKS("CHUNK-2", training.forward({}, nullptr, encoder));
}
