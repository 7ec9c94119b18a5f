// Which micro-batches a stage asks its loader for, and when.

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

TEST_CASE("a stage asks for the batches of the next step when it has all of this one", "[actors]") {
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
    CHECK(it.asked[std::size_t(microbatches + m)] == expected);
    CHECK(now.consumed == 0);
  }
  it.system.tell(it.stage, it.answer(it.asked[3]));
  CHECK(it.asked.size() == 2 * microbatches);  // no more than a step ahead
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("what a stage has asked for ahead it does not ask for again", "[actors]") {
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
  auto last = staged::step(2);
  last.consumed = samples;
  it.system.tell(it.stage, last);
  CHECK(it.neighbour.of<messages::activation>().size()
        == std::size_t(it.answers ? 2 * microbatches : microbatches));
  answer_from(microbatches);
  CHECK(it.neighbour.of<messages::activation>().size() == 2 * microbatches);
  CHECK(it.asked.size() == 2 * microbatches);  // nothing follows
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a validation between two steps leaves what was asked for ahead", "[actors]") {
  staged it(0);
  it.take(staged::followed(1));
  auto validation = staged::step(1);
  validation.validation = true;
  it.system.tell(it.stage, validation);
  it.redeem_handed();
  CHECK(it.asked.size() == 3 * microbatches);
  CHECK(it.votes().size() == 2);
  auto last = staged::step(2);
  last.consumed = samples;
  it.take(last);
  CHECK(it.asked.size() == 3 * microbatches);
  CHECK(it.votes().size() == 3);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a loader that comes after another is asked for what is missing of both steps",
          "[actors]") {
  staged it(0);
  it.answers = false;
  it.system.tell(it.stage, staged::followed(1));
  for (std::size_t i = 0; i < microbatches; ++i)
    it.system.tell(it.stage, it.answer(it.asked[i]));
  REQUIRE(it.asked.size() == 2 * microbatches);
  it.system.tell(it.stage, it.answer(it.asked[3]));
  it.system.tell(it.stage, messages::use_loader{first_generation, 0, it.new_loader()});
  REQUIRE(it.asked.size() == 2 * microbatches + 1);
  CHECK(it.asked.back() == it.asked[2]);
  const auto leased = it.prepared->node->transport->leased();
  it.system.tell(it.stage, it.answer(it.asked[2]));
  it.system.tell(it.stage, it.answer(it.asked[2]));  // of both loaders
  CHECK(it.prepared->node->transport->leased() == leased + 3);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("DATA-2: a step that takes other batches than were asked for ahead ends the stage",
          "[actors]") {
  staged it(0);
  auto first = staged::followed(1);
  auto second = staged::step(2);
  second.consumed = samples;
  if (GENERATE(true, false))
    second.consumed = samples + 1;
  else
    ++first.next_microbatches;
  it.take(first);
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.stage, second);
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.0: DATA-2"));
}
