#include "runtime/trainer/step_ledger.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

committed_step step(std::uint64_t iteration, std::uint64_t salt = 0) {
  return {.at = {.iteration = iteration, .consumed = 8 * iteration},
          .state = {iteration, salt},
          .parts = {{"w", {iteration, salt}}, {"b", {iteration, 0}}}};
}

}  // namespace

TEST_CASE("LEDGER-1: a step is committed once, after the one before") {
  step_ledger x;
  x.begin({.iteration = 10, .consumed = 80});
  CHECK(x.newest() == 10);
  x.commit(step(11));
  CHECK(x.newest() == 11);
  CHECK_THROWS_MATCHES(
      x.commit(step(11)), broken_promise, MessageMatches(ContainsSubstring("LEDGER-1")));
  CHECK_THROWS_MATCHES(
      x.commit(step(13)), broken_promise, MessageMatches(ContainsSubstring("LEDGER-1")));
  CHECK(x.newest() == 11);
}

TEST_CASE("LEDGER-2: a step that runs again comes out with the state that it had") {
  step_ledger x;
  x.begin({.iteration = 10, .consumed = 80});
  for (std::uint64_t n = 11; n <= 20; ++n)
    x.commit(step(n));
  x.replay(step(20));
  x.replay(step(11));
  // What differs is named as long as it is known; that it differs always.
  CHECK_THROWS_MATCHES(x.replay(step(20, 1)),
                       broken_promise,
                       MessageMatches(ContainsSubstring("LEDGER-2: step 20 ran again")
                                      && ContainsSubstring("it differs in w")));
  CHECK_THROWS_MATCHES(
      x.replay(step(11, 1)), broken_promise, MessageMatches(ContainsSubstring("step 11")));
  CHECK_THROWS_AS(x.replay(step(21)), broken_promise);
}

TEST_CASE("LEDGER-3: a supervisor that has a successor writes nothing any more") {
  step_ledger x;
  x.by(0)->begin({.iteration = 10, .consumed = 80});
  x.by(0)->commit(step(11));
  x.belongs_to(1);
  CHECK_THROWS_AS(x.by(0)->commit(step(12)), cancelled);
  CHECK_THROWS_AS(x.by(0)->saved(11), cancelled);
  CHECK(x.newest() == 11);
  CHECK_FALSE(x.newest_saved());
  x.by(1)->commit(step(12));
  CHECK(x.newest() == 12);
}

TEST_CASE("a ledger knows where the training stood after the newest steps and what was saved") {
  step_ledger x;
  x.begin({.iteration = 10, .consumed = 80});
  for (std::uint64_t n = 11; n <= 20; ++n) {
    if (n == 15)
      x.keep_position({.iteration = 14, .consumed = 112});
    x.commit(step(n));
  }
  CHECK(x.position(20)->consumed == 160);
  CHECK(x.position(19)->consumed == 152);
  CHECK_FALSE(x.position(12));
  CHECK(x.position(14)->consumed == 112);
  CHECK(x.position(10)->consumed == 80);
  CHECK(x.state(12) == digest{12, 0});
  CHECK(x.state(10) == digest{});
  x.saved(14);
  CHECK(x.newest_saved() == 14);
  CHECK(x.position(14));
  x.saved(18);
  CHECK_FALSE(x.position(14));
  CHECK(x.position(10));
}

TEST_CASE("what a monitor is told is numbered, and the newest of it is kept") {
  step_ledger x;
  for (std::uint64_t n = 1; n <= 300; ++n)
    CHECK(x.tell(step_report{.iteration = n}) == n);
  const auto facts = x.facts();
  CHECK(facts.size() == 256);
  CHECK(facts.front().first == 45);
  CHECK(std::get<step_report>(facts.front().second).iteration == 45);
  CHECK(facts.back().first == 300);
}
