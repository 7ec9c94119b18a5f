#include "kernels/reference/reference.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <map>

using namespace troupe;
using namespace troupe::tests;

namespace {

std::int32_t token(sample_memory<double> t) {
  kernels::reference::run(t.draw());
  return t.token;
}

/// Probabilities 0.2, 0.5, 0.3 of tokens 0, 1, 2.
const std::vector<double> three{std::log(0.2), std::log(0.5), std::log(0.3)};

}  // namespace

TEST_CASE("a token is drawn by cumulative probability, the most probable first",
          "[kernels][reference][sample]") {
  CHECK(token({.logits = three, .uniform = 0}) == 1);
  CHECK(token({.logits = three, .uniform = 0.49}) == 1);
  CHECK(token({.logits = three, .uniform = 0.51}) == 2);
  CHECK(token({.logits = three, .uniform = 0.79}) == 2);
  CHECK(token({.logits = three, .uniform = 0.81}) == 0);
  CHECK(token({.logits = three, .uniform = 0x1.fffffffffffffp-1}) == 0);
}

TEST_CASE("top-k of one is greedy, and the first of equal logits wins",
          "[kernels][reference][sample]") {
  const auto uniform = GENERATE(0.0, 0.5, 0.999);
  CHECK(token({.logits = {1, 3, 2}, .top_k = 1, .uniform = uniform}) == 1);
  CHECK(token({.logits = {1, 3, 3, 3}, .top_k = 1, .uniform = uniform}) == 1);
}

TEST_CASE("top-k keeps the k largest and their proportions", "[kernels][reference][sample]") {
  // 0.5 and 0.3 become 0.625 and 0.375.
  CHECK(token({.logits = three, .top_k = 2, .uniform = 0.62}) == 1);
  CHECK(token({.logits = three, .top_k = 2, .uniform = 0.63}) == 2);
  CHECK(token({.logits = three, .top_k = 2, .uniform = 0.999}) == 2);
  CHECK(token({.logits = three, .top_k = 9, .uniform = 0.999}) == 0);  // more than the vocabulary
}

TEST_CASE("equal logits rank by token, lowest first", "[kernels][reference][sample]") {
  const std::vector<double> equal{5, 5, 5, 5};
  CHECK(token({.logits = equal, .uniform = 0.3}) == 1);
  CHECK(token({.logits = equal, .uniform = 0.9}) == 3);
  CHECK(token({.logits = equal, .top_k = 2, .uniform = 0.9}) == 1);
  CHECK(token({.logits = equal, .top_p = 0.6f, .uniform = 0.99}) == 2);
}

TEST_CASE("forty equal logits keep the order of their tokens", "[kernels][reference][sample]") {
  const std::vector<double> equal(40, 1.0);  // more than std::sort handles by insertion
  for (int i = 0; i < 40; ++i)
    CHECK(token({.logits = equal, .uniform = (i + 0.5) / 40}) == i);
}

TEST_CASE("a cumulative probability equal to the limit does not exceed it",
          "[kernels][reference][sample]") {
  const std::vector<double> halves{1, 1};
  CHECK(token({.logits = halves, .uniform = 0.5}) == 1);
  CHECK(token({.logits = halves, .top_p = 0.5f, .uniform = 0.9}) == 1);  // 0.5 does not exceed 0.5
}

TEST_CASE("top-p keeps the token that crosses p and removes those after it",
          "[kernels][reference][sample]") {
  CHECK(token({.logits = three, .top_p = 0.4f, .uniform = 0.999}) == 1);
  CHECK(token({.logits = three, .top_p = 1e-6f, .uniform = 0.999}) == 1);  // the first token stays
  CHECK(token({.logits = three, .top_p = 0.6f, .uniform = 0.999}) == 2);
  CHECK(token({.logits = three, .top_p = 0.6f, .uniform = 0.62})
        == 1);  // relative to the remaining 0.8: 0.625
  CHECK(token({.logits = three, .top_p = 0.9f, .uniform = 0.999}) == 0);
  CHECK(token({.logits = three, .top_p = 1, .uniform = 0.999}) == 0);
}

TEST_CASE("top-p counts probabilities after top-k", "[kernels][reference][sample]") {
  // After top-k, 0.5 becomes 0.625 and exceeds 0.6 alone.
  CHECK(token({.logits = three, .top_k = 2, .top_p = 0.6f, .uniform = 0.999}) == 1);
}

TEST_CASE("min-p keeps the tokens near the most probable one", "[kernels][reference][sample]") {
  CHECK(token({.logits = three, .min_p = 0.3f, .uniform = 0.999}) == 0);
  CHECK(token({.logits = three, .min_p = 0.5f, .uniform = 0.999}) == 2);
  CHECK(token({.logits = three, .min_p = 0.5f, .uniform = 0.62}) == 1);  // of the remaining 0.8
  CHECK(token({.logits = three, .min_p = 1, .uniform = 0.999}) == 1);
  CHECK(token({.logits = {1, 1, 0}, .min_p = 1, .uniform = 0.999}) == 1);  // equal ones stay
}

TEST_CASE("min-p compares probabilities after the temperature", "[kernels][reference][sample]") {
  // At 1/2 the ratio of tokens 2 and 1 is 9 to 25.
  CHECK(token({.logits = three, .temperature = 0.5f, .min_p = 0.35f, .uniform = 0.999}) == 2);
  CHECK(token({.logits = three, .temperature = 0.5f, .min_p = 0.37f, .uniform = 0.999}) == 1);
}

TEST_CASE("temperature divides the logits", "[kernels][reference][sample]") {
  // At 1/2 the probabilities are 4, 25, 9 of 38.
  CHECK(token({.logits = three, .temperature = 0.5f, .uniform = 0.65}) == 1);
  CHECK(token({.logits = three, .temperature = 0.5f, .uniform = 0.67}) == 2);
  CHECK(token({.logits = three, .temperature = 0.5f, .uniform = 0.90}) == 0);
  CHECK(token({.logits = three, .temperature = 0.01f, .uniform = 0.999}) == 1);
}

TEST_CASE("over all uniform numbers the token frequencies equal the softmax",
          "[kernels][reference][sample]") {
  std::map<std::int32_t, int> count;
  for (int i = 0; i < 1000; ++i)
    ++count[token({.logits = three, .uniform = (i + 0.5) / 1000})];
  CHECK(count == std::map<std::int32_t, int>{{0, 200}, {1, 500}, {2, 300}});
}

TEST_CASE("large logits do not overflow", "[kernels][reference][sample]") {
  CHECK(token({.logits = {1e5, 1e5 + 1, -1e5}, .uniform = 0.8}) == 0);
}
