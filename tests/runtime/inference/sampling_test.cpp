#include "runtime/inference/sampling.hpp"

#include "runtime/core/json_text.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int made_up_tokens = 37;

/// The logits of tests/golden/sampling/make.py.
std::vector<float> made_up_logits(std::uint32_t salt) {
  std::vector<float> out;
  for (std::uint32_t word = 0; word < made_up_tokens; ++word) {
    auto x = word * 15485863U + salt * 32452843U + 1U;
    for (const auto factor : {2246822519U, 3266489917U})
      x = (x ^ (x >> 15)) * factor;
    out.push_back(float(double(x >> 9) / 0x1p20 - 4));
  }
  return out;
}

struct host_stream {
  stream on{troupe::kernels::backend::cpu, 1, {}};
};

std::int32_t token_at(stream& host,
                      token_place at,
                      const sampling_settings& settings,
                      double draw) {
  at.draw = draw;
  return choose(host, at, settings).token;
}

/// The probability of each token: the lengths of the intervals of draws that give it, by bisection.
std::vector<double> drawn_probabilities(stream& host,
                                        const token_place& at,
                                        const sampling_settings& settings) {
  std::vector<double> out(at.logits.size());
  const double last = std::nextafter(1.0, 0.0);
  for (double from = 0; from < 1;) {
    const auto token = token_at(host, at, settings, from);
    double low = from, high = 1;
    if (token_at(host, at, settings, last) != token)
      while (high - low > 1e-9) {
        const double middle = (low + high) / 2;
        (token_at(host, at, settings, middle) == token ? low : high) = middle;
      }
    out[std::size_t(token)] += high - from;
    from = high;
  }
  return out;
}

}  // namespace

TEST_CASE("tokens have the probabilities of transformers' processors", "[inference][golden]") {
  host_stream host;
  std::ifstream file(troupe::tests::source_dir() + "/tests/golden/sampling/golden.json");
  std::stringstream content;
  content << file.rdbuf();
  const auto golden = json_value(content.str());
  REQUIRE(golden["cases"].size() == 60);
  for (const auto& x : golden["cases"]) {
    INFO(json_text(x));
    sampling_settings settings{.temperature = x["temperature"],
                               .top_k = x["top_k"],
                               .top_p = x["top_p"],
                               .min_p = x["min_p"],
                               .repetition_penalty = x["repetition_penalty"],
                               .presence_penalty = x["presence_penalty"],
                               .frequency_penalty = x["frequency_penalty"]};
    for (const auto& one : x["bias"])
      settings.bias.emplace_back(one[0], one[1]);
    require_sampling(settings, made_up_tokens);
    const auto logits = made_up_logits(x["salt"]);
    auto so_far = x["prompt"].get<std::vector<std::int32_t>>();
    const auto prompt = so_far.size();
    for (const auto& token : x["text"])
      so_far.push_back(token);
    std::vector<double> expected(made_up_tokens);
    for (const auto& one : x["probabilities"])
      expected[one[0]] = one[1];
    const auto found = drawn_probabilities(
        host.on, {.logits = logits, .so_far = so_far, .prompt = prompt}, settings);
    for (int word = 0; word < made_up_tokens; ++word) {
      INFO(word);
      CHECK(std::abs(found[std::size_t(word)] - expected[std::size_t(word)])
            < 1e-6);  // theirs are sums of floats
    }
  }
}

TEST_CASE("temperature 0, top-p 0 and top-k 1 take the most probable token", "[inference]") {
  host_stream host;
  const std::vector<float> logits = {1, 3, 3, 2};
  for (const auto& settings : {greedy(),
                               sampling_settings{.top_p = 0},
                               sampling_settings{.top_k = 1},
                               sampling_settings{.min_p = 1}}) {
    CHECK(token_at(host.on, {.logits = logits}, settings, 0.1) == 1);
    auto biased = settings;
    biased.bias = {{3, 2.0F}};
    CHECK(token_at(host.on, {.logits = logits}, biased, 0.999) == 3);
  }
}

TEST_CASE("only allowed tokens are chosen", "[inference]") {
  host_stream host;
  std::vector<float> logits(100, 0);
  logits[3] = 5;
  std::vector<std::uint64_t> allowed = {0, 0};
  allowed[0] = std::uint64_t{1} << 17 | std::uint64_t{1} << 63;
  allowed[1] = std::uint64_t{1} << 6;
  const token_place at{.logits = logits, .allowed = allowed};
  for (const auto& settings :
       {greedy(), sampling_settings{.top_k = 2}, sampling_settings{.top_p = 0.5F}})
    CHECK(token_at(host.on, at, settings, 0) == 17);
  CHECK(token_at(host.on, at, {}, 0.5) == 63);
  CHECK(token_at(host.on, at, {}, 0.99) == 70);
  CHECK(token_at(host.on, {.logits = logits, .ids = 64, .allowed = allowed}, {}, 0.99) == 63);
  const std::vector<std::int32_t> banned = {63, 17};
  auto fewer = at;
  fewer.banned = banned;
  CHECK(token_at(host.on, fewer, {}, 0.2) == 70);
  fewer.ids = 64;
  CHECK_BREAKS("CHOOSE-1", choose(host.on, fewer, {}));
  // A set of fewer words does not allow the tokens beyond it.
  allowed.resize(1);
  CHECK(token_at(host.on, {.logits = logits, .allowed = allowed}, {}, 0.99) == 63);
}

TEST_CASE("log-probabilities are those of the model, whatever is sampled", "[inference]") {
  host_stream host;
  const auto logits = made_up_logits(5);
  double sum = 0;
  for (const float x : logits)
    sum += std::exp(double(x));
  const auto exact
      = [&](std::int32_t token) { return double(logits[std::size_t(token)]) - std::log(sum); };
  const std::vector<std::int32_t> so_far = {1, 2, 3};
  token_place at{.logits = logits, .ids = 20, .so_far = so_far, .prompt = 1, .draw = 0.7};
  CHECK(std::isnan(choose(host.on, at, {}).log_probability));
  at.alternatives = 4;
  const sampling_settings settings{
      .temperature = 3, .top_k = 9, .repetition_penalty = 2, .bias = {{7, 1.5F}}};
  const auto found = choose(host.on, at, settings);
  CHECK(found.token < 20);
  CHECK(std::abs(double(found.log_probability) - exact(found.token)) < 1e-5);  // float terms
  REQUIRE(found.alternatives.size() == 4);
  std::vector<std::int32_t> ranked(made_up_tokens);
  std::iota(ranked.begin(), ranked.end(), 0);
  std::sort(ranked.begin(), ranked.end(), [&](auto a, auto b) { return exact(a) > exact(b); });
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(found.alternatives[i].first == ranked[i]);
    const auto one = choice_of(host.on, logits, ranked[i], 0);
    CHECK(one.log_probability == found.alternatives[i].second);  // to the bit
    CHECK(one.alternatives.empty());
  }
  CHECK(choice_of(host.on, logits, 0, 1000).alternatives.size() == made_up_tokens);
}

TEST_CASE("draws depend on seed, request, copy and position", "[inference]") {
  std::vector<double> all;
  for (const std::uint64_t seed : {1U, 2U})
    for (const std::uint64_t request : {0U, 1U})
      for (const std::uint64_t copy : {0U, 1U, 2U})
        for (const std::uint64_t position : {0U, 1U})
          all.push_back(draw_of(seed, request, copy, position));
  CHECK(draw_of(2, 1, 2, 1) == all.back());
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("texts are ranked by their mean log-probability", "[inference]") {
  const std::vector<std::vector<float>> texts
      = {{-1, -3}, {}, {-1.5F}, {-1, -1, -1}, {-2, -2}, {-0.5F, -2.5F}};
  CHECK(best_first(texts) == std::vector<std::size_t>{3, 2, 5, 0, 4, 1});
}

TEST_CASE("settings out of range are refused", "[inference]") {
  const auto refused = [](const sampling_settings& x, const std::string& message) {
    CHECK_THROWS_WITH(require_sampling(x, 100), ContainsSubstring(message));
  };
  refused({.temperature = -1}, "the temperature -1 is out of range");
  refused({.temperature = std::nanf("")}, "the temperature");
  refused({.top_k = -1}, "top-k -1");
  refused({.top_p = 1.5F}, "top-p 1.5");
  refused({.min_p = -0.5F}, "min-p");
  refused({.repetition_penalty = 0}, "the repetition penalty");
  refused({.presence_penalty = 3}, "the presence penalty");
  refused({.frequency_penalty = -3}, "the frequency penalty");
  refused({.bias = {{100, 1.0F}}}, "there is no token 100 to bias: give an id from 0 to 99");
  refused({.bias = {{-1, 1.0F}}}, "there is no token -1");
  refused({.bias = {{5, 101.0F}}}, "a bias 101");
  require_sampling({.temperature = 0, .top_p = 0, .bias = {{99, -100.0F}}}, 100);
}
