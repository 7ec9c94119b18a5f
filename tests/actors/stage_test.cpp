// A stage alone: its replica, its loader and the other stage are played by the test.

#include "actors/stage/stage.hpp"

#include "runtime/optim/optimizer_state.hpp"
#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;

namespace {

constexpr int microbatches = 2;
constexpr std::uint64_t samples = 2 * microbatches;  ///< of a step

runtime::training_job job_of_two_stages() {
  auto job = tests::tiny_job(2, 1);
  job.training.model.tied_embeddings = false;  // or both stages would have to be there
  job.training.batch.global = 2 * microbatches;
  return job;
}

/// One of two stages.
struct staged {
  explicit staged(int pipeline_rank,
                  const std::string& fault = {},
                  bool meets = true,
                  bool keeps = false) {
    auto job = job_of_two_stages();
    job.recovery.on = keeps;
    job.faults.fault = fault;
    prepared = tests::without_threads(job);
    auto& node = *prepared->node;
    loader = new_loader();
    const auto groups = std::make_shared<actors::group_registry>(runtime::cancel_token(),
                                                                 value(first_generation));
    stage = system.keep(system.home().spawn(
        actors::stage,
        messages::spawn_stage{first_generation, prepared->description, {}, 0, pipeline_rank, 0},
        node.jobs->open(prepared->description),
        std::shared_ptr<const actors::node_context>(prepared->node),
        groups));
    messages::meet peers{.generation = runtime::generation_id(value(first_generation) + 1),
                         .replica = system.listener(replica),
                         .loader = loader,
                         .checkpointer = system.listener(checkpointer)};
    if (keeps)
      peers.keeper = system.listener(keeper);
    const auto other = system.listener(neighbour);
    peers.pipeline = {pipeline_rank == 0 ? stage : other, pipeline_rank == 0 ? other : stage};
    peers.tensor = {stage};
    end.emplace(stage);
    system.tell(stage, peers);  // of another generation: dropped
    met_strangers = replica.of<messages::ready>().size();
    peers.generation = first_generation;
    if (meets)
      system.tell(stage, peers);
  }

  messages::loader_actor new_loader() {
    return system.keep(system.home().spawn(
        [this](messages::loader_actor::pointer) -> messages::loader_actor::behavior_type {
          return {[this](const messages::request_batch& x) -> caf::result<messages::batch_ready> {
            asked.push_back(x);
            if (!answers)
              return caf::delegated<messages::batch_ready>();
            return answer(x);
          }};
        }));
  }
  messages::batch_ready answer(const messages::request_batch& x) {
    return {x.at, batch(x.microbatch, x.inputs, x.labels)};
  }
  /// Both steps are of as many micro-batches, and this one is told what the next will read.
  static messages::run_step followed(std::uint64_t number) {
    auto out = step(number);
    out.consumed = samples * (number - 1);
    out.next_consumed = samples * number;
    out.next_microbatches = microbatches;
    return out;
  }
  /// As the next stage does, so that credits come back.
  void redeem_handed() {
    const auto& all = neighbour.of<messages::activation>();
    for (; redeemed < all.size(); ++redeemed)
      runtime::redeem(*prepared->node->transport, all[redeemed].data);
    system.run();
  }
  /// From its begin until it is updated.
  void take(const messages::run_step& x) {
    system.tell(stage, x);
    redeem_handed();
    for (int m = 0; m < microbatches; ++m)
      system.tell(stage, gradient(m, value(x.step)));
    system.tell(stage, decision(value(x.step)));
  }

  runtime::ticket_bundle deposit(const runtime::bundle& x) {
    return runtime::deposit(*prepared->node->transport, x, first_generation);
  }
  runtime::ticket_bundle batch(std::uint64_t microbatch, bool inputs, bool labels) {
    runtime::bundle out;
    const auto all = prepared->node->training->microbatch({0, microbatch, 0});
    if (inputs)
      add_inputs(out, all);
    if (labels)
      add_labels(out, all);
    return deposit(out);
  }
  static messages::pass_id pass(int chunk,
                                int microbatch,
                                std::uint64_t step = 1,
                                runtime::generation_id generation = first_generation) {
    return {.generation = generation,
            .step = runtime::step_id(step),
            .chunk = runtime::chunk_id(std::uint32_t(chunk)),
            .microbatch = runtime::microbatch_id(std::uint32_t(microbatch))};
  }
  /// Of a hidden state's extents; of gradients other numbers for each micro-batch.
  runtime::tensor hidden(int microbatch = -1) {
    const runtime::shape extents{2, 16, 32};
    runtime::tensor x(
        pool.allocate(std::size_t(extents.size()) * sizeof(float)), runtime::dtype::f32, extents);
    for (std::int64_t i = 0; i < extents.size(); ++i)
      x.data<float>()[i] = microbatch < 0 ? 0.0F : float((i * 7 + microbatch * 13) % 11 - 5) / 64;
    return x;
  }
  messages::gradient gradient(int microbatch, std::uint64_t step = 1) {
    runtime::bundle x;
    x.add("hidden", hidden(microbatch));
    return {pass(0, microbatch, step), deposit(x)};
  }
  messages::activation activation(int microbatch, std::uint64_t step = 1) {
    runtime::bundle x;
    x.add("hidden", hidden());
    const auto all = prepared->node->training->microbatch({0, std::uint64_t(microbatch), 0});
    x.add("positions", all.positions);
    x.add("samples", all.samples);
    return {pass(1, microbatch, step), deposit(x)};
  }
  static messages::run_step step(std::uint64_t number) {
    return {.generation = first_generation,
            .step = runtime::step_id(number),
            .microbatches = microbatches};
  }
  static messages::decision decision(std::uint64_t number) {
    return {.generation = first_generation,
            .step = runtime::step_id(number),
            .update = number,
            .learning_rate = 1e-3};
  }
  std::size_t redeemed = 0;                    ///< of what was handed on
  bool answers = true;                         ///< the loader does
  std::vector<messages::request_batch> asked;  ///< of any loader
  std::size_t met_strangers = 0;  ///< it was ready after meeting actors of another generation

  std::vector<messages::vote>& votes() { return replica.of<messages::vote>(); }

  tests::heard_by<messages::replica_actor> replica;
  tests::heard_by<messages::checkpointer_actor> checkpointer;
  tests::heard_by<messages::stage_actor> neighbour;
  tests::heard_by<messages::keeper_actor> keeper;
  runtime::memory_pool pool;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::loader_actor loader;
  messages::stage_actor stage;
  std::optional<tests::ending> end;
};

}  // namespace

TEST_CASE("a stage is ready, hands on, votes when its row is done, and then updates", "[actors]") {
  staged it(0);
  REQUIRE(it.replica.of<messages::ready>().size() == 1);
  CHECK(it.replica.of<messages::ready>().front().parameters > 0);
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
  CHECK_FALSE(it.votes().front().square_norms.empty());
  CHECK(it.replica.of<messages::applied>().empty());
  it.system.tell(it.stage, staged::decision(1));
  CHECK(it.replica.of<messages::applied>().size() == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a stage takes gradients in any order, and votes the same", "[actors]") {
  const auto norms_after = [](int first, int second) {
    staged it(0);
    it.system.tell(it.stage, staged::step(1));
    it.system.tell(it.stage, it.gradient(first));
    it.system.tell(it.stage, it.gradient(second));
    REQUIRE(it.votes().size() == 1);
    return it.votes().front().square_norms;
  };
  const auto norms = norms_after(0, 1);
  CHECK(runtime::total_norm(norms) > 0);
  CHECK(norms == norms_after(1, 0));
}

TEST_CASE("VERIFY-3: gradients of one replica have a digest where the step may run again",
          "[actors]") {
  const auto [fault, recovers, digested] = GENERATE(table<std::string, bool, bool>(
      {{"nan:0.0@1", true, true}, {"nan:0.0@1", false, false}, {"", true, false}}));
  staged it(0, fault, true, recovers);
  it.system.tell(it.stage, staged::step(1));
  for (int m = 0; m < microbatches; ++m)
    it.system.tell(it.stage, it.gradient(m));
  REQUIRE(it.votes().size() == 1);
  CHECK(it.votes().front().nonfinite.parameter.empty() == fault.empty());
  CHECK((it.votes().front().gradients != runtime::digest{}) == digested);
}

TEST_CASE("what a stage receives before its step begins waits for it", "[actors]") {
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

TEST_CASE("HANDOFF-3: a stage drops what belongs to another generation", "[actors]") {
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
  it.system.tell(it.stage, decision);  // nobody has voted: of this generation it would be refused
  it.system.tell(it.stage, it.gradient(1));
  CHECK(it.votes().empty());
  it.system.tell(it.stage, it.gradient(0));
  CHECK(it.votes().size() == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("HANDOFF-3: a stage drops activations and batches of another generation", "[actors]") {
  const auto other = runtime::generation_id(GENERATE(0, 2));
  staged it(1);
  it.system.tell(it.stage, staged::step(1));
  auto late = it.activation(0);
  late.at.generation = other;
  it.system.tell(it.stage, late);
  it.system.tell(it.stage, messages::batch_ready{late.at, it.batch(0, false, true)});
  it.system.tell(it.stage, it.activation(1));
  CHECK(it.neighbour.of<messages::gradient>().empty());  // in the order of the row: 0 comes first
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

TEST_CASE("HANDOFF-1: an activation of a step that has ended ends the stage", "[actors]") {
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

TEST_CASE("HANDOFF-1: what is left of an earlier step ends the stage when the next begins",
          "[actors]") {
  staged it(0);
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.gradient(microbatches));  // of a micro-batch that the step has not
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

TEST_CASE("STEP-4: a step that begins within another ends the stage", "[actors]") {
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

TEST_CASE("STAGE-1: an action that no worker carries out ends the stage", "[actors]") {
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

TEST_CASE("STAGE-2: the end of work that it did not submit ends the stage", "[actors]") {
  staged it(0);
  it.system.tell(it.stage, messages::lane_done{.work = 1});  // built, and told so before
  CHECK_THAT(it.end->text(), ContainsSubstring("STAGE-2"));
}

TEST_CASE("a stage whose lane fails ends with what the lane says", "[actors]") {
  staged it(0, "lane:0.0@1");
  it.system.tell(it.stage, staged::step(1));
  it.system.tell(it.stage, it.gradient(0));
  it.system.tell(it.stage, it.gradient(1));
  CHECK(it.votes().empty());
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("stage:0.0: reduce: the fault"));
}

TEST_CASE("what was cancelled is no failure of the stage", "[actors]") {
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

TEST_CASE("SHARDS-3: a stage frees the snapshot of an attempt that failed", "[actors]") {
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
  drop(first_generation, 6);  // it comes late: that one is gone
  CHECK(leased() == before + pieces - 1);
  drop(first_generation, 7);
  CHECK(leased() == before);
  drop(first_generation, 7);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("KEEPER-2: a stage gives a state that was refused once more and ends the second time",
          "[actors]") {
  staged it(0, {}, true, true);
  auto& given = it.keeper.of<messages::keep>();
  REQUIRE(given.size() == 1);  // what it begins with
  const auto refused = [](std::uint64_t step, runtime::generation_id of = first_generation) {
    return messages::keep_refused{of, runtime::step_id(step), 0, "embedding"};
  };
  it.system.tell(it.stage, refused(0, runtime::next(first_generation)));
  it.system.tell(it.stage, refused(7));  // it has given no such state
  CHECK(given.size() == 1);
  it.system.tell(it.stage, refused(0));
  REQUIRE(given.size() == 2);
  CHECK(given[1].step == given[0].step);
  CHECK_FALSE(given[1].state == given[0].state);  // other tickets
  CHECK(given[1].state.own == given[0].state.own);
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.stage, refused(0));
  CHECK(given.size() == 2);
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(),
             ContainsSubstring("the state of step 0 is damaged") && ContainsSubstring("embedding"));
}
