// A replica alone; the test plays supervisor, node and stages.

#include "actors/replica/replica.hpp"

#include "tests/support/branch_handlers.hpp"
#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;

namespace {

/// A replica of four stages: two pipeline ranks, two tensor ranks.
struct merging {
  explicit merging(int process = 0) {
    prepared = tests::without_threads(tests::tiny_job(2, 1, 2));
    node = system.keep(system.home().spawn([this]() -> messages::node_actor::behavior_type {
      return tests::as_branch(
          none,
          [](const messages::spawn_loader&) { return messages::loader_spawned{}; },
          [](const messages::spawn_keeper&) { return messages::keeper_spawned{}; },
          [](const messages::spawn_checkpointer&) { return messages::checkpointer_spawned{}; },
          [](const messages::spawn_shard_writer&) { return messages::shard_writer_spawned{}; },
          [](const messages::spawn_monitor&) { return messages::monitor_spawned{}; },
          [](const messages::spawn_viewer&) { return messages::viewer_spawned{}; },
          [](const messages::spawn_replica&) { return messages::replica_spawned{}; },
          [this](const messages::spawn_stage& x) {
            asked.push_back(x);
            const auto i = std::size_t(x.rank);
            return messages::stage_spawned{stages[i] = system.listener(heard[i])};
          },
          [](const messages::end_generation& x) { return messages::generation_ended{x.last}; },
          [](const messages::find_stored&) { return messages::stored_found{}; },
          [](const messages::measure&) { return messages::measured{}; },
          [](const messages::look_again&) {},
          [](const messages::suspected&) {},
          [](const messages::all_restored&) {},
          [](const messages::shut_down&) {});
    }));
    messages::spawn_replica told{.generation = first_generation,
                                 .job = prepared->description,
                                 .replica = 0,
                                 .processes = {{.process = process, .node = node}},
                                 .supervisor = system.listener(supervisor)};
    told.reports_to = told.supervisor;
    replica = system.keep(system.home().spawn(
        actors::replica, told, std::shared_ptr<const actors::node_context>(prepared->node)));
    end.emplace(replica);
    system.run();
  }

  static messages::vote vote(int stage, std::uint64_t step = 1) {
    return {.generation = first_generation,
            .step = runtime::step_id(step),
            .rank = stage,
            .gradients = {{.rank = stage, .zeros = 1}}};
  }
  static messages::applied applied(int stage) {
    return {.generation = first_generation,
            .step = runtime::step_id(1),
            .rank = stage,
            .state = {{.rank = stage}}};
  }

  tests::heard_by<messages::supervisor_actor> supervisor;
  std::array<tests::heard_by<messages::stage_actor>, 4> heard;
  std::array<messages::stage_actor, 4> stages;
  std::vector<messages::spawn_stage> asked;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  std::vector<messages::replica_actor> none;
  messages::node_actor node;
  messages::replica_actor replica;
  std::optional<tests::ending> end;
};

}  // namespace

TEST_CASE("a replica requests its stages and introduces them to each other", "[actors]") {
  merging it;
  REQUIRE(it.asked.size() == 4);
  CHECK(it.asked[3].rank == 3);
  CHECK(it.asked[3].name == "0.1.1");
  CHECK(it.asked[3].job == it.prepared->description);
  const auto& met = it.heard[3].of<messages::meet>();
  REQUIRE(met.size() == 1);
  CHECK(met.front().generation == first_generation);
  CHECK(met.front().replica == it.replica);
  CHECK(met.front().pipeline == std::vector{it.stages[1], it.stages[3]});
  CHECK(met.front().followers.empty());
  CHECK(it.heard[2].of<messages::meet>().front().followers == std::vector{it.stages[3]});
}

TEST_CASE("a replica forwards orders of its generation to every stage", "[actors]") {
  merging it;
  messages::run_step order{.generation = first_generation, .step = runtime::step_id(1)};
  it.system.tell(it.replica, order);
  order.generation = runtime::generation_id(2);
  it.system.tell(it.replica, order);
  for (auto& stage : it.heard)
    CHECK(stage.of<messages::run_step>().size() == 1);
}

TEST_CASE("a replica tells its members of a group how to join it", "[actors]") {
  merging it;
  messages::group_opened opened{
      .generation = first_generation, .group = "tensor", .members = {1, 3}, .id = {1, 2}};
  it.system.tell(it.replica, opened);
  opened.generation = runtime::generation_id(2);
  it.system.tell(it.replica, opened);
  for (const std::size_t stage : {0, 1, 2})
    CHECK(it.heard[stage].of<messages::group_opened>().empty());
  REQUIRE(it.heard[3].of<messages::group_opened>().size() == 1);
  CHECK(it.heard[3].of<messages::group_opened>().front().id == std::vector<std::uint8_t>{1, 2});
  CHECK(it.supervisor.of<messages::group_opened>().empty());  // it has no member elsewhere
}

TEST_CASE("SHARDS-3: a replica tells every stage to drop the snapshot of a failed attempt",
          "[actors]") {
  merging it;
  const messages::drop_snapshot order{first_generation, runtime::step_id(1), 3};
  it.system.tell(it.replica, order);
  it.system.tell(it.replica,
                 messages::drop_snapshot{runtime::generation_id(2), runtime::step_id(1), 4});
  for (auto& stage : it.heard) {
    REQUIRE(stage.of<messages::drop_snapshot>().size() == 1);
    CHECK(stage.of<messages::drop_snapshot>().front() == order);
  }
}

TEST_CASE("a replica reports after all of its stages, in whatever order they report", "[actors]") {
  merging it;
  auto& said = it.supervisor.of<messages::vote>();
  for (const int stage : {2, 0, 3}) {
    auto x = merging::vote(stage);
    if (stage == 2)
      x.losses = {{1, 1, 1}};
    it.system.tell(it.replica, x);
    CHECK(said.empty());
  }
  auto stale = merging::vote(1);
  stale.generation = runtime::generation_id(0);
  it.system.tell(it.replica, stale);
  CHECK(said.empty());
  auto last = merging::vote(1);
  last.losses = {{2, 1, 0}};
  it.system.tell(it.replica, last);
  REQUIRE(said.size() == 1);
  REQUIRE(said.front().gradients.size() == 4);
  CHECK(said.front().gradients[3].rank == 3);
  REQUIRE(said.front().losses.size() == 2);
  CHECK(said.front().losses.front().number == 0);
}

TEST_CASE("a replica adds the rows of experts over its tensor ranks", "[actors]") {
  merging it;
  for (const int stage : {0, 1, 2, 3}) {
    auto x = merging::vote(stage);
    x.experts = {{.unit = 1 + stage / 2, .dropped = stage, .counts = {1, stage}}};
    it.system.tell(it.replica, x);
  }
  const auto& said = it.supervisor.of<messages::vote>();
  REQUIRE(said.size() == 1);
  const runtime::expert_rows first{.unit = 1, .dropped = 1, .counts = {2, 1}},
      second{.unit = 2, .dropped = 5, .counts = {2, 5}};
  CHECK(said.front().experts == std::vector{first, second});
}

TEST_CASE("REPLICA-1: a repeated report of a stage ends the replica", "[actors]") {
  merging it;
  for (int n = 0; n < 2; ++n)
    it.system.tell(it.replica, merging::vote(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("replica:0: REPLICA-1"));
}

TEST_CASE("REPLICA-2: a replica that is not told of the process of a stage ends", "[actors]") {
  merging it(1);
  CHECK(it.asked.empty());
  CHECK_THAT(it.end->text(), ContainsSubstring("REPLICA-2"));
}

TEST_CASE("REPLICA-1: a report of another step ends the replica", "[actors]") {
  merging it;
  it.system.tell(it.replica, merging::vote(1));
  it.system.tell(it.replica, merging::vote(2, 2));
  CHECK_THAT(it.end->text(), ContainsSubstring("REPLICA-1"));
}

TEST_CASE("STEP-6: a replica names parameters that differ between tensor ranks", "[actors]") {
  const bool alike = GENERATE(true, false);
  merging it;
  for (int stage = 0; stage < 4; ++stage) {
    auto x = merging::applied(stage);
    if (stage == 0)
      x.state[0].own = {{"norm", {1, 2}}};
    if (stage == 1)
      x.state[0].copies = {{"norm", {1, alike ? 2U : 3U}}};
    it.system.tell(it.replica, x);
  }
  const auto& said = it.supervisor.of<messages::applied>();
  REQUIRE(said.size() == 1);
  CHECK(said.front().unlike == (alike ? "" : "norm"));
  const auto& state = said.front().state;
  REQUIRE(state.size() == 4);
  CHECK(state[2].bits == state[3].bits);
  CHECK((state[0].bits == state[1].bits) == alike);
  CHECK(state[1].copies.empty());
}

TEST_CASE("STEP-6: copies of experts equal an owner here, or have theirs in another replica",
          "[actors]") {
  const std::uint64_t copied = GENERATE(2, 3, 4);
  const bool is_elsewhere = GENERATE(false, true);
  merging it;
  for (int stage = 0; stage < 4; ++stage) {
    auto x = merging::applied(stage);
    auto& experts = x.state.emplace_back(
        messages::updated_state{.rank = stage, .layers = runtime::axis_view::experts});
    if (stage < 2 && !is_elsewhere)  // two shards of a parameter
      experts.own = {{"bias", {1, stage == 0 ? 2U : 3U}}};
    if (stage == 3)
      experts.copies = {{"bias", {1, copied}}};
    it.system.tell(it.replica, x);
  }
  REQUIRE(it.supervisor.of<messages::applied>().size() == 1);
  const auto& said = it.supervisor.of<messages::applied>().front();
  CHECK(said.unlike == (is_elsewhere || copied < 4 ? "" : "bias"));
  // Those with their owner elsewhere are for the supervisor to compare.
  for (const auto& x : said.state)
    CHECK(x.copies.size()
          == (is_elsewhere && x.rank == 3 && x.layers == runtime::axis_view::experts ? 1 : 0));
}

TEST_CASE("a replica ends with the cause of its stage's death", "[actors]") {
  merging it;
  it.system.kill(it.stages[2], messages::make_error(ec::refused, "stage:0.1.0: out of memory"));
  CHECK(it.end->is(ec::refused));
  CHECK(it.end->text() == "replica:0: stage:0.1.0: out of memory");
}

TEST_CASE("a replica waits for the cause when a stage was only cancelled", "[actors]") {
  merging it;
  it.system.kill(it.stages[0], messages::make_error(ec::cancelled, "the generation has ended"));
  CHECK_FALSE(it.end->has_come());
  it.system.kill(it.stages[1], messages::make_error(ec::protocol_violated, "stage:0.0.1: broken"));
  CHECK(it.end->text() == "replica:0: stage:0.0.1: broken");
}
