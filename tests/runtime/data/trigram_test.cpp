#include "runtime/data/trigram.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <memory>

using namespace troupe::runtime;
using Catch::Matchers::WithinRel;

TEST_CASE("an untrained model gives every symbol the same probability", "[data]") {
  const auto model = std::make_unique<trigram_model>();
  CHECK_THAT(model->bits("abc"), WithinRel(4 * std::log2(257.0), 1e-12));
}

TEST_CASE("Witten-Bell probabilities equal those computed by hand", "[data]") {
  const auto model = std::make_unique<trigram_model>();
  model->add("aab");  // after two ends: a; then (end, a): a; (a, a): b; (a, b): end
  const double uniform = 1.0 / 257;
  // 4 symbols seen, 3 kinds: a twice, b, the end.
  const double a = (2 + 3 * uniform) / 7, b = (1 + 3 * uniform) / 7;
  // After a: a once, b once.
  const double a_after_a = (1 + 2 * a) / 4, b_after_a = (1 + 2 * b) / 4;
  // After aa: b once.
  CHECK_THAT(model->probability('a', 'a', 'b'), WithinRel((1 + b_after_a) / 2, 1e-12));
  CHECK_THAT(model->probability('a', 'a', 'a'), WithinRel(a_after_a / 2, 1e-12));
  // ca was never seen: the same as after a.
  CHECK_THAT(model->probability('c', 'a', 'a'), WithinRel(a_after_a, 1e-12));
}

TEST_CASE("probabilities after any two symbols add up to one", "[data]") {
  const auto model = std::make_unique<trigram_model>();
  model->add("the actor and the stage");
  model->add("");
  for (const auto& [x, y] : {std::pair<int, int>{'t', 'h'},
                             {'q', 'q'},
                             {'q', 't'},
                             {trigram_model::end_of_document, trigram_model::end_of_document}}) {
    double sum = 0;
    for (int c = 0; c < trigram_model::symbols; ++c)
      sum += model->probability(x, y, c);
    CHECK_THAT(sum, WithinRel(1.0, 1e-12));
  }
}

TEST_CASE("known text has a lower perplexity than unknown text", "[data]") {
  const auto model = std::make_unique<trigram_model>();
  for (int i = 0; i < 20; ++i)
    model->add("to be or not to be");
  CHECK(model->bits("to be") < model->bits("xq zw"));
}
