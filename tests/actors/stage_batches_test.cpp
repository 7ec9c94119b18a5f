// The micro-batches that a stage requests from its loader.

#include "tests/support/staged.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;
using tests::microbatches;
using tests::samples;
using tests::staged;

namespace {

/// Requests and gets the batches of step 1, and requests those of step 2.
void asks_ahead(staged& it) {
  it.answers = false;
  it.system.tell(it.stage, staged::followed(1));
  REQUIRE(it.asked.size() == microbatches);
  for (std::size_t i = 0; i < microbatches; ++i) {
    CHECK_FALSE(it.asked[i].ahead);
    it.system.tell(it.stage, it.answer(it.asked[i]));
  }
  REQUIRE(it.asked.size() == 2 * microbatches);
}

/// Completes step 1.
void commits_first(staged& it) {
  it.redeem_handed();
  for (int m = 0; m < microbatches; ++m)
    it.system.tell(it.stage, it.gradient(m));
  it.system.tell(it.stage, staged::decision(1));
}

/// The last step.
messages::run_step second_step() {
  auto out = staged::step(2);
  out.consumed = samples;
  return out;
}

}  // namespace

TEST_CASE("a stage requests the next step's batches once it has all of the current step",
          "[actors]") {
  staged it(0);
  it.answers = false;
  it.system.tell(it.stage, staged::followed(1));
  REQUIRE(it.asked.size() == microbatches);
  it.system.tell(it.stage, it.answer(it.asked[1]));
  CHECK(it.asked.size() == microbatches);
  it.system.tell(it.stage, it.answer(it.asked[0]));
  REQUIRE(it.asked.size() == 2 * microbatches);
  for (int m = 0; m < microbatches; ++m) {
    const auto& now = it.asked[std::size_t(m)];
    auto expected = now;
    expected.at.step = runtime::step_id(2);
    expected.consumed = samples;
    expected.ahead = true;
    CHECK(it.asked[std::size_t(microbatches + m)] == expected);
    CHECK(now.consumed == 0);
  }
  it.system.tell(it.stage, it.answer(it.asked[3]));
  CHECK(it.asked.size() == 2 * microbatches);  // at most one step ahead
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a stage does not repeat its requests ahead", "[actors]") {
  staged it(0);
  it.answers = GENERATE(true, false);
  it.system.tell(it.stage, staged::followed(1));
  const auto answer_from = [&](std::size_t first) {
    for (std::size_t i = first; !it.answers && i < first + microbatches; ++i)
      it.system.tell(it.stage, it.answer(it.asked[i]));
  };
  answer_from(0);
  for (int m = 0; m < microbatches; ++m)
    it.system.tell(it.stage, it.gradient(m));
  REQUIRE(it.votes().size() == 1);
  it.system.tell(it.stage, staged::decision(1));
  it.redeem_handed();
  CHECK(it.asked.size() == 2 * microbatches);
  it.system.tell(it.stage, second_step());
  CHECK(it.neighbour.of<messages::activation>().size()
        == std::size_t(it.answers ? 2 * microbatches : microbatches));
  answer_from(microbatches);
  CHECK(it.neighbour.of<messages::activation>().size() == 2 * microbatches);
  CHECK(it.asked.size() == 2 * microbatches);  // no step follows
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a validation between two steps keeps the requested batches", "[actors]") {
  staged it(0);
  it.take(staged::followed(1));
  auto validation = staged::step(1);
  validation.validation = true;
  it.system.tell(it.stage, validation);
  it.redeem_handed();
  CHECK(it.asked.size() == 3 * microbatches);
  CHECK(it.votes().size() == 2);
  it.take(second_step());
  CHECK(it.asked.size() == 3 * microbatches);
  CHECK(it.votes().size() == 3);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a new loader is asked for the missing batches of both steps", "[actors]") {
  staged it(0);
  asks_ahead(it);
  it.system.tell(it.stage, it.answer(it.asked[3]));
  it.system.tell(it.stage, messages::use_loader{first_generation, 0, it.new_loader()});
  REQUIRE(it.asked.size() == 2 * microbatches + 1);
  CHECK(it.asked.back() == it.asked[2]);
  const auto leased = it.prepared->node->transport->leased();
  it.system.tell(it.stage, it.answer(it.asked[2]));
  it.system.tell(it.stage, it.answer(it.asked[2]));  // from both loaders
  CHECK(it.prepared->node->transport->leased() == leased + 3);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("DATA-2: a step that needs other batches than requested ahead ends the stage",
          "[actors]") {
  staged it(0);
  auto first = staged::followed(1);
  auto next = second_step();
  if (GENERATE(true, false))
    next.consumed = samples + 1;
  else
    ++first.next_microbatches;
  it.take(first);
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.stage, next);
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.0: DATA-2"));
}

TEST_CASE("DATA-3: a failed batch is requested again when its step begins", "[actors]") {
  staged it(0);
  asks_ahead(it);
  const auto failed = it.asked[2];
  CHECK(failed.ahead);
  CHECK(it.asked[3].ahead);
  it.system.tell(it.stage, messages::batch_failed{failed.at});
  it.system.tell(it.stage, it.answer(it.asked[3]));
  const bool by_another = GENERATE(false, true);
  if (by_another)  // a new loader is not asked for the failed batch early
    it.system.tell(it.stage, messages::use_loader{first_generation, 0, it.new_loader()});
  CHECK(it.asked.size() == 2 * microbatches);
  commits_first(it);
  CHECK(it.replica.of<messages::applied>().size() == 1);
  CHECK(it.asked.size() == 2 * microbatches);
  it.system.tell(it.stage, second_step());
  REQUIRE(it.asked.size() == 2 * microbatches + 1);
  auto expected = failed;
  expected.ahead = false;
  CHECK(it.asked.back() == expected);
  it.system.tell(it.stage, it.answer(it.asked.back()));
  it.redeem_handed();
  for (int m = 0; m < microbatches; ++m)
    it.system.tell(it.stage, it.gradient(m, 2));
  CHECK(it.votes().size() == 2);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("DATA-3: a failure after its step began is requested again at once", "[actors]") {
  staged it(0);
  asks_ahead(it);
  commits_first(it);
  it.system.tell(it.stage, second_step());
  REQUIRE(it.asked.size() == 2 * microbatches);
  const auto at = it.asked[2].at;
  it.system.tell(it.stage,
                 messages::batch_failed{staged::pass(0, 0, 2, runtime::generation_id(2))});
  CHECK(it.asked.size() == 2 * microbatches);
  it.system.tell(it.stage, messages::batch_failed{at});
  REQUIRE(it.asked.size() == 2 * microbatches + 1);
  CHECK(it.asked.back().at == at);
  CHECK_FALSE(it.asked.back().ahead);
  it.system.tell(it.stage, it.answer(it.asked.back()));
  it.system.tell(it.stage, messages::batch_failed{at});  // of a dead loader
  CHECK(it.asked.size() == 2 * microbatches + 1);
  CHECK_FALSE(it.end->has_come());
}
