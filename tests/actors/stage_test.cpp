// A stage alone; support/staged.hpp plays its peers.

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

TEST_CASE("a stage becomes ready, computes its row, votes, and updates", "[actors]") {
  staged it(0);
  REQUIRE(it.replica.of<messages::ready>().size() == 1);
  it.system.tell(it.stage, staged::step(1));
  auto& handed = it.neighbour.of<messages::activation>();
  REQUIRE(handed.size() == microbatches);
  CHECK(handed[0].at == staged::pass(1, 0));
  CHECK(handed[1].at == staged::pass(1, 1));
  it.system.tell(it.stage, it.gradient(0));
  CHECK(it.votes().empty());
  it.system.tell(it.stage, it.gradient(1));
  REQUIRE(it.votes().size() == 1);
  CHECK(it.votes().front().step == runtime::step_id(1));
  REQUIRE(it.votes().front().gradients.size() == 1);
  CHECK_FALSE(it.votes().front().gradients.front().square_norms.empty());
  CHECK(it.replica.of<messages::applied>().empty());
  it.system.tell(it.stage, staged::decision(1));
  CHECK(it.replica.of<messages::applied>().size() == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("gradients in any order give the same vote", "[actors]") {
  const auto norms_after = [](int first, int second) {
    staged it(0);
    it.system.tell(it.stage, staged::step(1));
    it.system.tell(it.stage, it.gradient(first));
    it.system.tell(it.stage, it.gradient(second));
    REQUIRE(it.votes().size() == 1);
    return it.votes().front().gradients.at(0).square_norms;
  };
  const auto norms = norms_after(0, 1);
  CHECK(runtime::total_norm(norms) > 0);
  CHECK(norms == norms_after(1, 0));
}

TEST_CASE("VERIFY-3: gradients of one replica have a digest if the step can run again",
          "[actors]") {
  const auto [fault, recovers, digested] = GENERATE(table<std::string, bool, bool>(
      {{"nan:0.0@1", true, true}, {"nan:0.0@1", false, false}, {"", true, false}}));
  staged it(0, fault, true, recovers);
  it.system.tell(it.stage, staged::step(1));
  for (int m = 0; m < microbatches; ++m)
    it.system.tell(it.stage, it.gradient(m));
  REQUIRE(it.votes().size() == 1);
  CHECK(it.votes().front().nonfinite.parameter.empty() == fault.empty());
  CHECK((it.votes().front().gradients.at(0).bits != runtime::digest{}) == digested);
}

TEST_CASE("messages before their step begins wait for it", "[actors]") {
  staged it(1);
  it.system.tell(it.stage, it.activation(0));
  it.system.tell(it.stage, it.activation(1));
  CHECK(it.neighbour.of<messages::gradient>().empty());
  it.system.tell(it.stage, staged::step(1));
  CHECK(it.neighbour.of<messages::gradient>().size() == microbatches);
  REQUIRE(it.votes().size() == 1);
  CHECK(it.votes().front().losses.size() == 1);
  it.system.tell(it.stage, it.activation(0, 2));  // its neighbour is a step ahead
  it.system.tell(it.stage, staged::decision(1));
  CHECK(it.replica.of<messages::applied>().size() == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("HANDOFF-3: messages of another generation are dropped", "[actors]") {
  const auto other = runtime::generation_id(GENERATE(0, 2));
  staged it(0);
  CHECK(it.met_strangers == 0);
  auto late = it.gradient(0);
  late.at.generation = other;
  it.system.tell(it.stage, late);
  auto old_step = staged::step(1);
  old_step.generation = other;
  it.system.tell(it.stage, old_step);
  CHECK(it.neighbour.of<messages::activation>().empty());
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, late);
  auto decision = staged::decision(1);
  decision.generation = other;
  it.system.tell(it.stage, decision);  // before a vote it would be refused in this generation
  it.system.tell(it.stage, it.gradient(1));
  CHECK(it.votes().empty());
  it.system.tell(it.stage, it.gradient(0));
  CHECK(it.votes().size() == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("HANDOFF-3: activations and batches of another generation are dropped", "[actors]") {
  const auto other = runtime::generation_id(GENERATE(0, 2));
  staged it(1);
  it.system.tell(it.stage, staged::step(1));
  auto late = it.activation(0);
  late.at.generation = other;
  it.system.tell(it.stage, late);
  it.system.tell(it.stage, messages::batch_ready{late.at, it.batch(0, false, true)});
  it.system.tell(it.stage, it.activation(1));
  CHECK(it.neighbour.of<messages::gradient>().empty());  // the row starts with 0
  it.system.tell(it.stage, it.activation(0));
  CHECK(it.neighbour.of<messages::gradient>().size() == microbatches);
  CHECK(it.votes().size() == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("HANDOFF-1: a second gradient of one pass ends the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.gradient(1));
  it.system.tell(it.stage, it.gradient(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.0: HANDOFF-1"));
}

TEST_CASE("HANDOFF-1: a second activation of one pass ends the stage", "[actors]") {
  staged it(1);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.activation(1));
  it.system.tell(it.stage, it.activation(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.1: HANDOFF-1"));
}

TEST_CASE("HANDOFF-1: an activation of an ended step ends the stage", "[actors]") {
  staged it(1);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.activation(0));
  it.system.tell(it.stage, it.activation(1));
  it.system.tell(it.stage, staged::decision(1));
  it.system.tell(it.stage, staged::step(2));
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.stage, it.activation(2));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.1: HANDOFF-1"));
}

TEST_CASE("HANDOFF-1: leftovers of an earlier step end the stage when the next begins",
          "[actors]") {
  staged it(0);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.gradient(microbatches));  // of a micro-batch beyond the step
  it.system.tell(it.stage, it.gradient(0));
  it.system.tell(it.stage, it.gradient(1));
  it.system.tell(it.stage, staged::decision(1));
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.stage, staged::step(2));
  CHECK_THAT(it.end->text(), ContainsSubstring("HANDOFF-1: nothing of an earlier step is left"));
}

TEST_CASE("STEP-1: a decision before the vote ends the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, staged::decision(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-1"));
  CHECK(it.replica.of<messages::applied>().empty());
}

TEST_CASE("STEP-4: a step that begins during another ends the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, staged::step(2));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-4"));
}

TEST_CASE("STEP-9: a step that begins before the worker is built ends the stage", "[actors]") {
  staged it(0, {}, false);
  it.system.tell(it.stage, staged::step(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-9"));
}

TEST_CASE("STAGE-1: an action that workers do not support ends the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage,
                 messages::chosen{.generation = first_generation,
                                  .step = runtime::step_id(1),
                                  .action = {runtime::action_kind::send_activation, {}, {}}});
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage,
                 messages::chosen{.generation = first_generation,
                                  .step = runtime::step_id(1),
                                  .action = {runtime::action_kind::send_activation, {}, {}}});
  it.system.tell(it.stage, it.gradient(0));
  it.system.tell(it.stage, it.gradient(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STAGE-1"));
}

TEST_CASE("STAGE-2: the completion of unknown work ends the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage, messages::lane_done{.work = 1});  // already reported as built
  CHECK_THAT(it.end->text(), ContainsSubstring("STAGE-2"));
}

TEST_CASE("after a failure of its lane a stage ends with the lane's error", "[actors]") {
  staged it(0, "lane:0.0@1");
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.gradient(0));
  it.system.tell(it.stage, it.gradient(1));
  CHECK(it.votes().empty());
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.0: reduce: the fault"));
}

TEST_CASE("cancelled work is not a failure of the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage, messages::lane_done{.work = 99, .failure = "x", .cancelled = true});
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a stage gives its snapshot to the checkpointer between two steps", "[actors]") {
  staged it(0);
  const messages::take_snapshot order{first_generation, runtime::step_id(0)};
  it.system.tell(it.stage, order);
  it.system.tell(it.stage, messages::take_snapshot{runtime::generation_id(2), {}});
  auto& given = it.checkpointer.of<messages::snapshot>();
  REQUIRE(given.size() == 1);
  CHECK(given.front().rank == 0);
  CHECK_FALSE(given.front().parameters.empty());
  CHECK(given.front().moments.size() == 2 * given.front().parameters.size());
}

TEST_CASE("SHARDS-3: a stage frees the snapshot of a failed attempt", "[actors]") {
  staged it(0);
  const auto leased = [&] { return it.prepared->node->transport->leased(); };
  const auto drop = [&](runtime::generation_id generation, std::uint64_t attempt) {
    it.system.tell(it.stage, messages::drop_snapshot{generation, runtime::step_id(0), attempt});
  };
  const auto before = leased();
  it.system.tell(it.stage, messages::take_snapshot{first_generation, runtime::step_id(0), 7});
  drop(runtime::generation_id(2), 7);
  const auto& given = it.checkpointer.of<messages::snapshot>();
  REQUIRE(given.size() == 1);
  const auto pieces = given.front().parameters.size() + given.front().moments.size();
  REQUIRE(leased() == before + pieces);
  it.prepared->node->transport->redeem(given.front().moments.front().elements);
  drop(first_generation, 6);  // late: that snapshot is freed
  CHECK(leased() == before + pieces - 1);
  drop(first_generation, 7);
  CHECK(leased() == before);
  drop(first_generation, 7);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("KEEPER-2: a stage sends a refused state once more, and ends after a second refusal",
          "[actors]") {
  staged it(0, {}, true, true);
  auto& given = it.keeper.of<messages::keep>();
  REQUIRE(given.size() == 1);  // its initial state
  const auto refused = [](std::uint64_t step, runtime::generation_id of = first_generation) {
    return messages::keep_refused{of, runtime::step_id(step), 0, "embedding"};
  };
  it.system.tell(it.stage, refused(0, runtime::next(first_generation)));
  it.system.tell(it.stage, refused(7));  // it never sent this state
  CHECK(given.size() == 1);
  it.system.tell(it.stage, refused(0));
  REQUIRE(given.size() == 2);
  CHECK(given[1].step == given[0].step);
  CHECK_FALSE(given[1].state == given[0].state);  // new tickets
  CHECK(given[1].state.own == given[0].state.own);
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.stage, refused(0));
  CHECK(given.size() == 2);
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(),
             ContainsSubstring("the state of step 0 is damaged") && ContainsSubstring("embedding"));
}

TEST_CASE("gradients of a skipped step are freed before the stage answers", "[actors]") {
  staged it(0);
  const auto pool = it.prepared->node->pools->of(0);
  std::vector<std::size_t> answered;
  for (const std::uint64_t number : {1, 2}) {
    it.system.tell(it.stage, staged::step(number));
    it.redeem_handed();
    for (int m = 0; m < microbatches; ++m)
      it.system.tell(it.stage, it.gradient(m, number));
    const auto reduced = pool.bytes_in_use();
    auto decision = staged::decision(number);
    decision.skip = number == 2;
    it.system.tell(it.stage, decision);
    REQUIRE(it.replica.of<messages::applied>().size() == number);
    answered.push_back(pool.bytes_in_use());
    CHECK(answered.back() < reduced);
  }
  CHECK(answered[1] <= answered[0]);
}
