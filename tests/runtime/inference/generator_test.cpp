#include "runtime/inference/generator.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "runtime/file/file.hpp"
#include "runtime/inference/score.hpp"
#include "runtime/inference/text_stream.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/bpe_trainer.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"
#include "runtime/tokenizer/pre_tokenizer.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/experts_gpt.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <filesystem>
#include <map>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using ids = std::vector<std::int32_t>;

namespace {

gpt_config small(position_embedding position, std::int64_t groups) {
  gpt_config c;
  c.layers = 2;
  c.hidden = 32;
  c.heads = 4;
  c.groups = groups;
  c.head_size = 8;
  c.ffn = 64;
  c.sequence = c.positions = 48;
  c.vocabulary = 61;
  c.padded_vocabulary = 64;
  c.position = position;
  c.init_std = 0.2;  // large, so that rounding does not decide the next token
  return c;
}

/// A model with random weights.
struct fresh_model {
  explicit fresh_model(const gpt_config& c,
                       troupe::kernels::backend where = troupe::kernels::backend::cpu)
      : fresh_model(gpt_spec(c), where) {}

  explicit fresh_model(const model_spec& what,
                       troupe::kernels::backend where = troupe::kernels::backend::cpu,
                       dtype precision = dtype::f32)
      : stream(where, 1, memory_pool()),
        model(what, all_of(what)),
        store(model.units(), 1, stream.pool(), precision) {
    initialise(store, 17);
  }

  std::pair<ids, generation_end> text(const generation_request& what) {
    ids out;
    const auto visit = [&](std::size_t, std::int32_t x) {
      out.push_back(x);
      return true;
    };
    const auto end = generate(model, store, stream, {&what, 1}, visit, cached);
    return {out, end.front()};
  }

  /// Generates all of them together.
  std::vector<ids> texts(const std::vector<generation_request>& what) {
    std::vector<ids> out(what.size());
    const auto visit = [&](std::size_t which, std::int32_t x) {
      out[which].push_back(x);
      return true;
    };
    ends = generate(model, store, stream, what, visit, cached);
    return out;
  }

  troupe::runtime::stream stream;
  chunk model;
  resident_store store;
  bool cached = true;
  std::vector<generation_end> ends;  ///< of the last call of texts()
};

generation_request request(std::int64_t tokens, sampling_settings settings) {
  generation_request out;
  out.prompt = {3, 1, 4, 1, 5};
  out.tokens = tokens;
  out.end_of_document = -1;  // never drawn
  out.sampling = settings;
  return out;
}

}  // namespace

TEST_CASE("documents to be evaluated have around them what a data set puts there", "[inference]") {
  class framing final : public null_tokenizer {
   public:
    framing() : null_tokenizer(10) {}
    text_frame frame() const override { return {{7}, {8}}; }
  };
  const framing text;
  const std::vector<std::string> documents = {"1 2", "3"};
  CHECK(ids_of_documents(documents, text, true) == ids{9, 7, 1, 2, 8, 9, 7, 3, 8, 9});
  CHECK(ids_of_documents(documents, text, false) == ids{9, 1, 2, 9, 3, 9});
}

TEST_CASE("decoding in narrow types equals that in float up to rounding", "[inference]") {
  const auto precision = GENERATE(values({dtype::bf16, dtype::f16}));
  const auto spec = gpt_spec(small(position_embedding::rope, 2));
  fresh_model exact(spec), narrow(spec, troupe::kernels::backend::cpu, precision);
  decoder in_float(exact.model, exact.store, exact.stream, 16, true, 2);
  decoder rounded(narrow.model, narrow.store, narrow.stream, 16, true, 2);
  for (const auto& tokens : {std::vector<ids>{{3, 1, 4}, {1, 5, 9, 2, 6}},
                             std::vector<ids>{{7}, {8}},
                             std::vector<ids>{{60}, {0}}}) {
    const auto expected = in_float.advance(tokens);
    const auto found = rounded.advance(tokens);
    REQUIRE(found.size() == expected.size());
    double error = 0, size = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      error = std::max(error, std::abs(double(found[i]) - double(expected[i])));
      size = std::max(size, std::abs(double(expected[i])));
    }
    // A dozen roundings of values, relative to the largest, in two layers.
    CHECK(error > 0);
    CHECK(error < 12 * (precision == dtype::bf16 ? 0x1p-8 : 0x1p-11) * size);
  }
}

TEST_CASE("ids without a token are never drawn", "[inference]") {
  fresh_model m(small(position_embedding::rope, 2));
  auto what = request(40, {.temperature = 1, .seed = 1});
  std::int32_t largest = 0;
  for (const auto id : m.text(what).first)
    largest = std::max(largest, id);
  REQUIRE(largest >= 4);
  what.ids = 4;
  const auto found = m.text(what).first;
  CHECK(found.size() == 40);
  for (const auto id : found)
    CHECK(id < 4);
  what.sampling = greedy();
  for (const auto id : m.text(what).first)
    CHECK(id < 4);
  what.ids = 1 << 20;
  const auto all = m.text(what).first;
  what.ids = 0;
  CHECK(m.text(what).first == all);
}

TEST_CASE("generation with a cache gives the text of a full computation", "[inference]") {
  const auto position = GENERATE(values(
      {position_embedding::learned_absolute, position_embedding::rope, position_embedding::none}));
  const auto groups = GENERATE(1, 2, 4);
  const auto sampling
      = GENERATE(greedy(), sampling_settings{.temperature = 0.7F, .top_k = 5, .seed = 9});
  fresh_model m(small(position, groups));
  auto what = request(40, sampling);
  const auto kept = m.text(what).first;
  m.cached = false;
  CHECK(kept == m.text(what).first);
  CHECK(kept.size() == 40);
}

TEST_CASE("every attention has its own cache, also two in one layer", "[inference]") {
  auto twice = gpt_spec(small(position_embedding::rope, 2));
  auto again = troupe::tests::sublayer(twice, 0);
  again.name = "second_attention";
  again.norm_before->name = "second_layernorm";
  auto& sublayers = twice.part<layer_spec>().sublayers;
  sublayers.insert(sublayers.begin() + 1, again);
  fresh_model m(twice);
  const auto kept = m.text(request(40, greedy())).first;
  m.cached = false;
  CHECK(kept == m.text(request(40, greedy())).first);
}

TEST_CASE("logits with a cache equal those without, in one or several pieces", "[inference]") {
  fresh_model m(small(position_embedding::rope, 2));
  const std::vector<ids> tokens = {{9, 8, 7, 6, 5, 4, 3}};
  decoder whole(m.model, m.store, m.stream, 7, false), parts(m.model, m.store, m.stream, 7, true);
  const auto expected = whole.advance(tokens);
  const std::vector<float> judge(expected.begin(), expected.end());
  parts.advance(std::vector<ids>{{9, 8, 7, 6}});
  parts.advance(std::vector<ids>{{5}});
  const auto got = parts.advance(std::vector<ids>{{4, 3}});
  for (std::size_t v = 0; v < judge.size(); ++v)
    // Two orders of fp32 sums over some hundred terms near 1.
    CHECK(std::abs(got[v] - judge[v]) < 1e-4F * (1 + std::abs(judge[v])));
}

TEST_CASE("a decoder takes one token per sequence, up to its room", "[inference]") {
  fresh_model m(small(position_embedding::rope, 2));
  decoder under_test(m.model, m.store, m.stream, 3, true);
  CHECK_BREAKS("DECODE-1", under_test.advance(std::vector<ids>{{1}, {2}}));
  CHECK_BREAKS("DECODE-2", under_test.advance(std::vector<ids>{{}}));
  CHECK_BREAKS("DECODE-2", under_test.advance(std::vector<ids>{{1, 2, 3, 4}}));
}

TEST_CASE("the logits of a model in bf16 are close to those in f32, with and without a cache",
          "[inference]") {
  fresh_model m(small(position_embedding::rope, 2));
  resident_store rounded(m.model.units(), 1, m.stream.pool(), dtype::bf16);
  initialise(rounded, 17);
  const auto logits = [&](parameter_store& store, bool cached) {
    decoder by(m.model, store, m.stream, 7, cached);
    by.advance(std::vector<ids>{{9, 8, 7, 6}});
    const auto out = by.advance(std::vector<ids>{{5, 4, 3}});
    return std::vector<float>(out.begin(), out.end());
  };
  const auto exact = logits(m.store, true);
  for (const bool cached : {false, true}) {
    const auto seen = logits(rounded, cached);
    REQUIRE(seen.size() == exact.size());
    // Some dozens of random roundings of 4e-3 each, of logits near 1.
    for (std::size_t v = 0; v < 61; ++v)
      CHECK(std::abs(seen[v] - exact[v]) < 0.1F);
  }
  CHECK(logits(rounded, true) != exact);
}

TEST_CASE("the same seed gives the same text, another one another", "[inference]") {
  fresh_model m(small(position_embedding::learned_absolute, 4));
  const auto a = m.text(request(30, {.seed = 1})).first;
  CHECK(a == m.text(request(30, {.seed = 1})).first);
  CHECK(a != m.text(request(30, {.seed = 2})).first);
  for (const auto x : a)
    CHECK((x >= 0 && x < 61));  // never a padding row
}

TEST_CASE("generation ends with the learned positions, and reports it", "[inference]") {
  fresh_model m(small(position_embedding::learned_absolute, 4));
  const auto [text, end] = m.text(request(1000, greedy()));
  CHECK(end == generation_end::end_of_positions);
  CHECK(text.size() == 48 - 5 + 1);  // the last token is not an input any more
  auto what = request(1, greedy());
  what.prompt.assign(49, 1);
  CHECK_THROWS_WITH(m.text(what), ContainsSubstring("49 tokens") && ContainsSubstring("shorten"));
  what.prompt.clear();
  CHECK_THROWS_WITH(m.text(what), ContainsSubstring("at least one token"));
  CHECK_THROWS_WITH(m.texts({request(1, greedy()), what}), ContainsSubstring("prompt 1"));

  auto beyond = small(position_embedding::learned_absolute, 4);
  beyond.sequence = 16;  // of the training samples
  CHECK(fresh_model(beyond).text(request(1000, greedy())) == std::pair(text, end));

  fresh_model turning(small(position_embedding::rope, 4));
  CHECK(turning.text(request(60, greedy())).second == generation_end::enough);
}

TEST_CASE("prompts of different lengths are continued together as alone", "[inference]") {
  const auto position
      = GENERATE(values({position_embedding::learned_absolute, position_embedding::rope}));
  const bool cached = GENERATE(true, false);
  fresh_model m(small(position, 2));
  m.cached = cached;
  std::vector<generation_request> all;
  const ids prompts[] = {{3}, {1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9}, {3, 2, 3}, {8, 4}};
  for (const auto& prompt : prompts) {
    all.push_back(request(20, sampling_settings{.temperature = 0.8F, .top_k = 5, .seed = 3}));
    all.back().prompt = prompt;
    all.back().number = all.size() - 1;
  }
  all[1].tokens = 7;
  const auto together = m.texts(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("prompt " << i);
    CHECK(together[i].size() == (i == 1 ? 7 : 20));
    CHECK(together[i] == m.text(all[i]).first);
  }
  CHECK(m.ends == std::vector(4, generation_end::enough));
}

TEST_CASE("equal prompts with different numbers are sampled differently", "[inference]") {
  fresh_model m(small(position_embedding::rope, 4));
  std::vector<generation_request> all(2, request(20, {.seed = 3}));
  all[1].number = 1;
  const auto texts = m.texts(all);
  CHECK(texts[0] != texts[1]);
  all[1].number = 0;
  const auto alike = m.texts(all);
  CHECK(alike[0] == alike[1]);
}

TEST_CASE("each of several texts ends for its own reason", "[inference]") {
  fresh_model m(small(position_embedding::learned_absolute, 4));
  std::vector<generation_request> all(4, request(100, greedy()));
  all[0].prompt.assign(40, 1);
  all[1].tokens = 3;
  const auto free = m.text(all[2]).first;
  all[2].end_of_document = free[5];
  std::vector<ids> texts(4);
  const auto ends
      = generate(m.model, m.store, m.stream, all, [&](std::size_t which, std::int32_t x) {
          texts[which].push_back(x);
          return which != 3 || texts[3].size() < 4;
        });
  CHECK(ends
        == std::vector{generation_end::end_of_positions,
                       generation_end::enough,
                       generation_end::end_of_document,
                       generation_end::stopped});
  CHECK(texts[0].size() == 9);
  CHECK(texts[1] == ids(free.begin(), free.begin() + 3));
  CHECK(texts[2] == ids(free.begin(), std::find(free.begin(), free.end(), free[5])));
  CHECK(texts[3] == ids(free.begin(), free.begin() + 4));
}

TEST_CASE("a text ends before a stop word, however its tokens are split", "[inference]") {
  const std::string text = "one two three one four";
  const auto shown = [&](std::vector<std::string> words, std::size_t size) {
    stop_words stop(std::move(words));
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size)
      out += stop.push(text.substr(at, size));
    return out + stop.finish() + (stop.found() ? "." : "");
  };
  for (const std::size_t size : {1U, 2U, 3U, 5U, 100U}) {
    INFO(size);
    CHECK(shown({"three"}, size) == "one two .");
    CHECK(shown({"four", "two t", "e f"}, size) == "one .");
    CHECK(shown({"three two", "fourth"}, size) == text);
    CHECK(shown({"one"}, size) == ".");
    CHECK(shown({""}, size) == text);
  }
  stop_words held({"abac"});
  CHECK(held.push("xab") == "x");
  CHECK(held.push("ab") == "ab");
  CHECK(held.push("ac").empty());
  CHECK(held.found());
  CHECK(held.push("more").empty());
}

TEST_CASE("the logits of a window equal a decoder's after each of its tokens", "[inference]") {
  fresh_model m(small(position_embedding::rope, 2));
  const ids tokens = {9, 8, 7, 6};
  const auto all = logits_of(m.model, m.store, m.stream, tokens);
  REQUIRE(all.size() == 4 * 61);
  CHECK_BREAKS("SCORE-2", logits_of(m.model, m.store, m.stream, ids{}));
  decoder by(m.model, m.store, m.stream, 4, true);
  for (std::size_t t = 0; t < 4; ++t) {
    const auto one = by.advance(std::vector<ids>{{tokens[t]}});
    for (std::size_t v = 0; v < 61; ++v)
      // Two orders of fp32 sums over some hundred terms near 1.
      CHECK(std::abs(one[v] - all[t * 61 + v]) < 1e-4F * (1 + std::abs(one[v])));
  }
}

TEST_CASE("the end of a document ends the text and is not part of it", "[inference]") {
  fresh_model m(small(position_embedding::rope, 4));
  auto what = request(20, greedy());
  const auto all = m.text(what).first;
  what.end_of_document = all[7];
  const auto [text, end] = m.text(what);
  CHECK(end == generation_end::end_of_document);
  const auto first = std::find(all.begin(), all.end(), all[7]);
  CHECK(text == ids(all.begin(), first));
}

TEST_CASE("each of several ids ends the text", "[inference]") {
  fresh_model m(small(position_embedding::rope, 4));
  auto what = request(20, sampling_settings{.temperature = 4});  // many different tokens
  const auto all = m.text(what).first;
  for (const auto& ends : {ids{all[9], all[4]}, ids{all[4], all[9]}}) {
    what.other_ends = ends;
    const auto [text, end] = m.text(what);
    CHECK(end == generation_end::end_of_document);
    const auto first = std::find_first_of(all.begin(), all.end(), ends.begin(), ends.end());
    CHECK(text == ids(all.begin(), first));
  }
  what.other_ends = {60, all[4]};
  what.end_of_document = all[0];
  CHECK(m.text(what).first.empty());
}

TEST_CASE("the surprise of a text depends on the stride only through context", "[inference]") {
  auto c = small(position_embedding::learned_absolute, 4);
  fresh_model m(c);
  ids tokens;
  for (int i = 0; i < 49; ++i)
    tokens.push_back((i * i + 3) % 61);
  // One window holds everything: every stride sees the same context.
  const auto once = surprise(m.model, m.store, m.stream, tokens, 48);
  CHECK_THAT(surprise(m.model, m.store, m.stream, tokens, 5), WithinRel(once, 1e-6));
  // More tokens than a window: each is predicted once.
  for (int i = 49; i < 130; ++i)
    tokens.push_back((i * i + 3) % 61);
  std::vector<std::uint64_t> told;
  const auto longer = surprise(
      m.model, m.store, m.stream, tokens, 48, [&](auto done, auto) { told.push_back(done); });
  CHECK(told == std::vector<std::uint64_t>{48, 96, 129});
  CHECK_BREAKS("SCORE-1", surprise(m.model, m.store, m.stream, tokens, 49));
  CHECK(longer > once);
}

TEST_CASE("the surprise of a text is the loss of the head, whatever its name", "[inference]") {
  const auto c = small(position_embedding::rope, 4);
  auto renamed = gpt_spec(c);
  renamed.part<head_spec>().reported = {"word loss"};
  fresh_model m(c), other(renamed);
  const ids tokens = {1, 2, 3, 4, 5, 6, 7};
  const auto expected = surprise(m.model, m.store, m.stream, tokens, 48);
  CHECK(expected > 0);
  CHECK(surprise(other.model, other.store, other.stream, tokens, 48) == expected);
}

TEST_CASE("the surprise of an untrained model is the log of the vocabulary size", "[inference]") {
  auto c = small(position_embedding::none, 4);
  c.init_std = 0;
  fresh_model m(c);
  const ids tokens = {1, 2, 3, 4, 5, 6, 7};
  CHECK_THAT(surprise(m.model, m.store, m.stream, tokens, 48), WithinRel(6 * std::log(61.0), 1e-5));
}

TEST_CASE("text is shown once its characters are complete", "[inference]") {
  bpe_trainer trainer;
  trainer.add("aaa");
  const bpe_tokenizer bytes(trainer.train({.vocabulary_size = 257}));
  const auto tokens = bytes.encode("a\xC3\xA9\xF0\x9F\x8E\xAD!");  // é and a mask: 2 and 4 bytes
  REQUIRE(tokens.size() == 8);
  text_stream out(bytes);
  std::vector<std::string> pieces;
  for (const auto x : tokens)
    pieces.push_back(out.push(x));
  CHECK(pieces
        == std::vector<std::string>{"a", "", "\xC3\xA9", "", "", "", "\xF0\x9F\x8E\xAD", "!"});
  CHECK(out.finish().empty());
}

TEST_CASE("invalid bytes do not hold up the text", "[inference]") {
  bpe_trainer trainer;
  trainer.add("aaa");
  const bpe_tokenizer bytes(trainer.train({.vocabulary_size = 257}));
  text_stream out(bytes);
  std::string shown;
  for (const auto x : bytes.encode("\xFF\xC3"
                                   "b\xE2\x82"))
    shown += out.push(x);
  CHECK(shown == "\uFFFD\uFFFDb");
  CHECK(out.finish() == "\uFFFD");
}

TEST_CASE("shown text is the whole text with its invalid subparts replaced", "[inference]") {
  bpe_trainer trainer;
  trainer.add("aaa");
  const bpe_tokenizer bytes(trainer.train({.vocabulary_size = 257}));
  const std::string some = "a\x80\xBF\xC2\xE0\xA0\xE4\xED\x9F\xF0\x90\xF4\x8F\xFF";
  for (std::uint64_t n = 0; n < 2000; ++n) {
    std::string text;
    for (auto rest = n * n * n; rest > 0; rest /= some.size())
      text += some[rest % some.size()];
    text_stream out(bytes);
    std::string shown;
    for (const auto x : bytes.encode(text))
      shown += out.push(x);
    INFO(n);
    CHECK(shown + out.finish() == with_replacements(text));
  }
}

TEST_CASE("tokens that are numbers keep their spaces", "[inference]") {
  const null_tokenizer numbers(100);
  text_stream out(numbers);
  std::string shown;
  for (const auto x : {17, 4, 96})
    shown += out.push(x);
  CHECK(shown + out.finish() == "17 4 96");
}

namespace {

/// Greedy and sampled requests of several lengths.
std::vector<generation_request> asked_of_experts() {
  std::vector<generation_request> out;
  for (const ids& prompt : {ids{3, 1}, ids{5}, ids{2, 2, 7}}) {
    auto& x = out.emplace_back(request(3, {.seed = 5}));
    x.prompt = prompt;
    x.number = out.size() - 1;
  }
  return out;
}

std::string all_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& x : std::filesystem::directory_iterator(folder))
    all[x.path().filename().string()] = read_text(x.path());
  std::string out;
  for (const auto& [name, content] : all)
    out += name + "\n" + content;
  return out;
}

/// Changes the routers, so that they choose other experts.
void disturb_routers(fresh_model& x) {
  for (const auto& e : x.store.entries())
    if (e.spec.name.ends_with("router.weight"))
      x.store.set(e, 0, troupe::tests::normal<float>(std::size_t(e.size()), 77));
}

}  // namespace

TEST_CASE("a generation's choices replay in scoring with its log-probabilities", "[inference]") {
  const troupe::tests::scratch_folder folder;
  const bool cached = GENERATE(true, false);
  CAPTURE(cached);
  fresh_model x(troupe::tests::experts_gpt(troupe::tests::tiny_experts()),
                troupe::kernels::backend::reference);
  x.cached = cached;
  const auto what = asked_of_experts();
  std::vector<ids> grown(what.size());
  {
    choice_text_writer record(folder / "made", 6);
    const auto visit = [&](std::size_t which, std::int32_t token) {
      grown[which].push_back(token);
      return true;
    };
    generate(x.model, x.store, x.stream, what, visit, cached, &record);
  }
  CHECK(grown == x.texts(what));  // a record changes nothing
  const choice_texts texts(folder / "made");
  REQUIRE(texts.size() == what.size());
  choice_reader replay(folder / "made");
  for (std::size_t i = 0; i < what.size(); ++i) {
    auto whole = what[i].prompt;
    whole.insert(whole.end(), grown[i].begin(), grown[i].end());
    CHECK(texts.tokens(i) == whole);
    whole.pop_back();  // the last one is no input
    const auto scored = logits_of(x.model, x.store, x.stream, whole, &replay);
    decoder alone(x.model, x.store, x.stream, 6, cached);
    const auto words = x.model.model().head().vocabulary;
    ids fresh = what[i].prompt;
    auto row = scored.begin() + (std::ptrdiff_t(fresh.size()) - 1) * words;
    for (const auto token : grown[i]) {
      const auto logits = alone.advance(std::vector<ids>{fresh});
      CHECK(std::equal(row, row + words, logits.begin()));
      row += words;
      fresh = {token};
    }
    CHECK(scored == logits_of(x.model, x.store, x.stream, whole));
  }

  const auto score = [&](std::size_t i, choice_reader* by, const char* to) {
    choice_text_writer record(folder / to, 7);
    scored_choices choices{.record = &record, .replay = by};
    const auto nats = surprise(x.model, x.store, x.stream, texts.tokens(i), 6, {}, &choices);
    return std::pair(nats, all_files(folder / to));
  };
  const auto before = score(0, nullptr, "own"), same = score(0, &replay, "same");
  CHECK(before == same);
  disturb_routers(x);
  const auto other = score(0, nullptr, "other"), kept = score(0, &replay, "kept");
  CHECK(kept.second == before.second);   // the choice stays
  CHECK(other.second != before.second);  // and would be another one
  CHECK(kept.first != before.first);     // weights are those of the new routers
}

TEST_CASE("CHOICES-3: a text takes only choices that were recorded for the same tokens",
          "[inference][invariant]") {
  const troupe::tests::scratch_folder folder;
  fresh_model x(troupe::tests::experts_gpt(troupe::tests::tiny_experts()));
  const ids known{3, 1, 4, 1, 5};
  const auto record = [&](const char* to) {
    choice_text_writer writer(folder / to, 7);
    scored_choices choices{.record = &writer};
    surprise(x.model, x.store, x.stream, known, 6, {}, &choices);
  };
  record("made");
  choice_reader replay(folder / "made");
  const auto refused = [&](const ids& tokens) -> std::string {
    try {
      logits_of(x.model, x.store, x.stream, tokens, &replay);
    } catch (const input_error& failure) {
      return failure.what();
    }
    return "";
  };
  CHECK(refused({3, 1, 4, 1}) == "");
  CHECK(refused({3, 1, 4, 1, 5, 2}) == "");  // the rows after the recorded ones choose
  CHECK_THAT(refused({3, 1, 4, 1, 9, 2}), ContainsSubstring("begins with: 3 1 4 1 9 2;"));
  CHECK(refused({7, 7, 7}) == "");  // padding
  CHECK_THAT(refused({3, 1, 5, 1}), ContainsSubstring("no text that this one of 4 tokens"));
  CHECK_THAT(refused({3, 1, 4}), ContainsSubstring("begins with: 3 1 4;"));
  CHECK_THROWS_WITH(record("made"), ContainsSubstring("of an earlier record"));
  choice_text_writer short_ones(folder / "short", 2);
  CHECK_BREAKS("CHOICES-3", short_ones.write_tokens(0, 1, known));

  auto wider = troupe::tests::tiny_experts();
  wider.router.experts = 8;
  fresh_model other(troupe::tests::experts_gpt(wider));
  choice_reader of_others(folder / "made");
  CHECK_THROWS_WITH(logits_of(other.model, other.store, other.stream, ids{3, 1, 4, 1}, &of_others),
                    ContainsSubstring("2 of 4 experts") && ContainsSubstring("chooses 2 of 8"));
  for (const auto& file : std::filesystem::directory_iterator(folder / "made"))
    if (file.path().extension() == ".choices")
      std::filesystem::resize_file(file.path(), 32 + 2 * 2 * 2);  // two rows
  choice_reader cut(folder / "made");
  CHECK_THROWS_WITH(logits_of(x.model, x.store, x.stream, ids{3, 1, 4, 1}, &cut),
                    ContainsSubstring("lacks choices of sample 0"));
  write_text(folder / "made" / "texts", "mine");
  CHECK_THROWS_WITH(choice_reader(folder / "made"), ContainsSubstring("does not begin like"));
  CHECK_THROWS_WITH(choice_reader(folder / "made"), ContainsSubstring("texts"));
}
