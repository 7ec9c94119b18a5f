// A keeper alone, for a process with two ranks; the test plays that process.

#include "actors/keeper/keeper.hpp"

#include "actors/host/rank_states.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/local_state_files.hpp"
#include "runtime/state/state_check.hpp"
#include "tests/support/deterministic.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <optional>

using namespace troupe;
using tests::first_generation;

namespace {

struct keeping {
  /// `death`: as --plant-death says it.
  explicit keeping(std::uint64_t interval = 0, const std::string& death = {}) {
    auto job = tests::tiny_job(2, 2);  // four ranks: 0 and 1 in the first process
    job.recovery.on = true;
    job.layout.processes = 2;
    job.checkpoints.local_interval = interval;
    if (interval > 0)
      job.checkpoints.local_folder = "states";
    job.faults.death = death;
    prepared = tests::without_threads(job);
    keeper = system.keep(system.home().spawn(
        actors::keeper,
        messages::spawn_keeper{
            first_generation, prepared->description, 0, system.listener(supervisor)},
        node().jobs->open(prepared->description),
        std::shared_ptr<const actors::node_context>(prepared->node),
        token));
  }
  actors::node_context& node() { return *prepared->node; }

  /// A state of the rank: it owns two of three elements, and the optimizer arrays.
  messages::keep given(int rank,
                       std::uint64_t step,
                       float value,
                       runtime::generation_id generation = first_generation) {
    const auto array = [&](std::int64_t n) {
      runtime::tensor x(
          node().pool.allocate(std::size_t(n) * sizeof(float)), runtime::dtype::f32, {n});
      for (std::int64_t i = 0; i < n; ++i)
        x.data<float>()[i] = value;
      return x;
    };
    runtime::rank_state state;
    const runtime::digested_chunk told{2, true, {{"w", false, 0, 1, 3, {0, 2}}}};
    state.parts[runtime::chunk_id(0)] = {
        3, {{1, 3}}, {array(2)}, array(4), std::make_shared<const runtime::digested_chunk>(told)};
    state.digests = runtime::digests_of(state);
    newest = state;
    return {.generation = generation,
            .step = runtime::step_id(step),
            .since = runtime::step_id(step),
            .rank = rank,
            .state = actors::deposited(*node().transport, state, generation)};
  }
  /// Stores the step of both ranks on the local disk, as the supervisor orders.
  void stores(std::uint64_t step) {
    for (const int rank : {0, 1})
      give(given(rank, step, float(step)));
    caf::anon_send(keeper, messages::store_kept{first_generation, runtime::step_id(step)});
    system.run();
    for (const std::uint64_t next : {step + 1, step + 2})
      for (const int rank : {0, 1})
        give(given(rank, next, float(next)));
    node().stored->finish();
  }
  std::size_t told() { return supervisor.of<messages::kept>().size(); }
  /// Sends it from a stage, which gets the keeper's answers.
  void give(const messages::keep& x) {
    if (!stage)
      stage = system.listener(asked);
    caf::send_as(stage, keeper, x);
    system.run();
  }
  /// Flips one bit in the arrays of the newest state.
  void flip(bool moment) {
    auto& part = newest.parts.at(runtime::chunk_id(0));
    auto array = moment ? part.kept : part.weights.front();
    reinterpret_cast<std::uint32_t&>(array.data<float>()[1]) ^= 1;
  }
  std::size_t leased() { return node().transport->leased(); }

  runtime::rank_state newest;
  tests::heard_by<messages::supervisor_actor> supervisor;
  tests::heard_by<messages::stage_actor> asked;
  runtime::cancel_token token;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::keeper_actor keeper;
  messages::stage_actor stage;
};

}  // namespace

TEST_CASE("KEEPER-1: a keeper reports a step once it has the states of all ranks of a process",
          "[actors]") {
  keeping it;
  it.system.tell(it.keeper, it.given(0, 5, 1));
  CHECK(it.told() == 0);
  CHECK(it.leased() == 0);
  it.system.tell(it.keeper, it.given(1, 5, 2));
  REQUIRE(it.told() == 1);
  const auto& told = it.supervisor.of<messages::kept>().front();
  CHECK(told == messages::kept{first_generation, runtime::step_id(5), -1, {{.of = {{0, 1}}}}});
  const auto kept = it.node().kept->find(1, 5);
  REQUIRE(kept);
  CHECK(kept->parts.at(runtime::chunk_id(0)).weights.front().data<float>()[1] == 2);
  CHECK(kept->digests == it.newest.digests);
}

TEST_CASE("KEEPER-2: a keeper refuses a state with a wrong bit and requests it again", "[actors]") {
  keeping it;
  it.give(it.given(0, 5, 1));
  const auto second = it.given(1, 5, 2);
  it.flip(GENERATE(false, true));
  it.give(second);
  CHECK(it.told() == 0);
  CHECK_FALSE(it.node().kept->find(1, 5));
  REQUIRE(it.asked.of<messages::keep_refused>().size() == 1);
  CHECK(it.asked.of<messages::keep_refused>().front()
        == messages::keep_refused{first_generation, runtime::step_id(5), 1, "w"});
  it.give(it.given(1, 5, 2));
  CHECK(it.told() == 1);
  CHECK(it.asked.of<messages::keep_refused>().size() == 1);
}

TEST_CASE("KEEPER-2: a wrong bit planted in the transfer is refused and requested again",
          "[actors]") {
  keeping it(0, "keeper@5:redeem:wrong-bits");
  it.give(it.given(0, 5, 1));
  CHECK_FALSE(it.node().kept->find(0, 5));
  REQUIRE(it.asked.of<messages::keep_refused>().size() == 1);
  CHECK(it.asked.of<messages::keep_refused>().front()
        == messages::keep_refused{first_generation, runtime::step_id(5), 0, "w"});
  CHECK(runtime::damaged_parameter(it.newest).empty());  // the state at its rank is unchanged
  it.give(it.given(0, 5, 1));
  it.give(it.given(1, 5, 2));
  CHECK(it.told() == 1);
  CHECK(it.asked.of<messages::keep_refused>().size() == 1);
}

TEST_CASE("a keeper that dies after it redeemed a state keeps nothing of it", "[actors]") {
  keeping it(0, "keeper@5:redeem");
  tests::ending end(it.keeper);
  it.give(it.given(0, 4, 1));
  it.give(it.given(1, 4, 2));
  CHECK_FALSE(end.has_come());
  it.give(it.given(0, 5, 1));
  CHECK(end.has_come());
  CHECK_THAT(end.text(),
             Catch::Matchers::ContainsSubstring("the death planted for keeper@5:redeem"));
  CHECK_FALSE(it.node().kept->find(0, 5));
  CHECK(it.node().kept->find(0, 4));
  CHECK(it.told() == 1);
}

TEST_CASE("a keeper that dies after its report leaves the state", "[actors]") {
  keeping it(0, "keeper@5:acknowledged");
  tests::ending end(it.keeper);
  it.give(it.given(0, 5, 1));
  CHECK_FALSE(end.has_come());
  it.give(it.given(1, 5, 2));
  CHECK(end.has_come());
  CHECK(it.told() == 1);
  CHECK(it.node().kept->find(1, 5));
}

TEST_CASE("a keeper writes to the local disk and reads back steps that are only there",
          "[actors]") {
  const tests::scratch_folder folder;
  keeping it(4);
  it.node().stored = std::make_shared<runtime::local_states>(folder.path());
  it.stores(4);
  REQUIRE(it.node().stored->complete().size() == 1);
  CHECK(it.node().stored->complete().front().iteration == 4);
  CHECK(it.node().stored->complete().front().own.size() == 2);
  CHECK_FALSE(it.node().kept->find(1, 4));  // replaced by two newer ones
  caf::send_as(it.stage, it.keeper, messages::fetch_kept{first_generation, runtime::step_id(4), 1});
  it.system.run();
  REQUIRE(it.asked.of<messages::kept_state>().size() == 1);
  const auto answer = it.asked.of<messages::kept_state>().front();
  REQUIRE(answer.found);
  const auto back = actors::redeemed(*it.node().transport, answer.state, {});
  CHECK(back.parts.at(runtime::chunk_id(0)).kept.data<float>()[3] == 4);
}

TEST_CASE("LOCAL-4: a keeper reports the steps that it was ordered to write and still writes",
          "[actors]") {
  const tests::scratch_folder folder;
  keeping it(4);
  it.node().stored = std::make_shared<runtime::local_states>(folder.path());
  std::optional<runtime::local_writer_lock> other(std::in_place);
  other->take(folder.path(), 0);  // blocks its disk
  const auto last = [&] { return it.supervisor.of<messages::kept>().back(); };
  const auto give = [&](std::uint64_t step) {
    for (const int rank : {0, 1})
      it.give(it.given(rank, step, float(step)));
    return last();
  };
  using runtime::step_id;
  const auto said = [](std::uint64_t step,
                       std::uint64_t told,
                       std::uint64_t storing,
                       std::vector<std::uint64_t> stored) {
    return messages::kept{first_generation,
                          step_id(step),
                          -1,
                          {{{{0, 1}}, step_id(told), step_id(storing), std::move(stored)}}};
  };
  CHECK(give(4) == said(4, 0, 0, {}));
  it.system.tell(it.keeper, messages::store_kept{first_generation, step_id(4)});
  CHECK(give(5) == said(5, 4, 4, {}));
  other.reset();
  it.node().stored->finish();
  CHECK(give(6) == said(6, 4, 0, {4}));
  // The step was removed.
  it.system.tell(it.keeper, messages::store_kept{first_generation, step_id(3)});
  CHECK(give(7) == said(7, 3, 0, {4}));
  REQUIRE(it.node().stored->complete().size() == 1);
  CHECK(it.node().stored->complete().front().iteration == 4);
}

TEST_CASE("LOCAL-2: a keeper does not return damaged states from the local disk", "[actors]") {
  const tests::scratch_folder folder;
  keeping it(4);
  it.node().stored = std::make_shared<runtime::local_states>(folder.path());
  it.stores(4);
  const auto file = folder / "process-0" / "step-0000004" / "rank-00001.state";
  auto bytes = runtime::read_text(file);
  bytes.back() ^= 1;
  runtime::write_text(file, bytes);
  caf::send_as(it.stage, it.keeper, messages::fetch_kept{first_generation, runtime::step_id(4), 1});
  it.system.run();
  REQUIRE(it.asked.of<messages::kept_state>().size() == 1);
  CHECK_FALSE(it.asked.of<messages::kept_state>().front().found);
  CHECK(it.node().stored->complete().empty());
}

TEST_CASE("KEPT-2: a keeper does not count states of another generation", "[actors]") {
  keeping it;
  it.system.tell(it.keeper, it.given(0, 5, 1));
  it.system.tell(it.keeper, it.given(1, 5, 2));
  const auto next = runtime::next(first_generation);
  it.system.tell(it.keeper, it.given(0, 5, 1, next));
  CHECK(it.told() == 1);
  it.system.tell(it.keeper, it.given(1, 5, 2, next));
  CHECK(it.told() == 2);
}

TEST_CASE("a skipped step is kept without data", "[actors]") {
  keeping it;
  for (const int rank : {0, 1})
    it.system.tell(it.keeper, it.given(rank, 5, 1));
  for (const int rank : {0, 1})
    it.system.tell(it.keeper,
                   messages::keep{first_generation, runtime::step_id(6), {}, rank, true, {}});
  REQUIRE(it.told() == 2);
  CHECK(it.node().kept->find(0, 6) == it.node().kept->find(0, 5));
}

TEST_CASE("a state of an ended generation is not kept, and the keeper continues", "[actors]") {
  keeping it;
  const auto late = it.given(0, 5, 1);
  it.node().transport->end_generation(first_generation);
  it.system.tell(it.keeper, late);
  CHECK_FALSE(it.node().kept->find(0, 5));
  it.system.tell(it.keeper, it.given(0, 5, 1, runtime::next(first_generation)));
  CHECK(it.node().kept->find(0, 5));
}

TEST_CASE("a keeper returns a state as tickets, or answers that it has none", "[actors]") {
  keeping it;
  it.system.tell(it.keeper, it.given(0, 5, 3));
  tests::heard_by<messages::stage_actor> heard;
  const auto stage = it.system.listener(heard);
  for (const std::uint64_t step : {5, 6})
    caf::send_as(
        stage, it.keeper, messages::fetch_kept{first_generation, runtime::step_id(step), 0});
  it.system.run();
  const auto& answers = heard.of<messages::kept_state>();
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].found);
  CHECK_FALSE(answers[1].found);
  const auto back = actors::redeemed(*it.node().transport, answers[0].state, {});
  CHECK(back.parts.at(runtime::chunk_id(0)).kept.data<float>()[3] == 3);
  CHECK(back.parts.at(runtime::chunk_id(0)).own_weights
        == std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 3}});
}

TEST_CASE("KEEPER-3: states of moved ranks stay until another keeper has theirs", "[actors]") {
  keeping it;  // keeps ranks 0 and 1 now, and had 2 and 3 before
  for (const std::uint64_t step : {5, 6})
    for (const int rank : {2, 3}) {
      const auto x = it.given(rank, step, 3);
      it.node().kept->put(first_generation,
                          rank,
                          {step, step},
                          actors::redeemed(*it.node().transport, x.state, {.until = it.token}));
    }
  const auto next = runtime::next(first_generation);
  it.give(it.given(0, 5, 1, next));
  it.give(it.given(1, 5, 2, next));
  CHECK(it.node().kept->find(3, 5));
  CHECK_FALSE(it.node().kept->find(3, 6));  // the ranks went back to an earlier step
  caf::send_as(it.stage, it.keeper, messages::fetch_kept{next, runtime::step_id(5), 3});
  it.system.run();
  REQUIRE(it.asked.of<messages::kept_state>().size() == 1);
  CHECK(it.asked.of<messages::kept_state>()[0].found);
  it.give(it.given(0, 6, 1, next));  // completes step 5 of its own ranks
  CHECK_FALSE(it.node().kept->find(3, 5));
  CHECK(it.node().kept->find(0, 5));
}
