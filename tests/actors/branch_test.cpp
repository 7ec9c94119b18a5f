// A node as a branch of the tree of processes; the test plays all around it.

#include "actors/node/node.hpp"
#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <tuple>
#include <utility>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::first_generation;

namespace {

/// Replica 0 lives in the branch's process 1, replica 1 below it in process 2, none in process 3.
struct branching {
  explicit branching(bool is_told = true) {
    auto job = tests::tiny_job(1, 2);
    job.recovery.on = true;
    prepared = tests::without_threads(job);
    const auto table = std::make_shared<actors::spawn_table>();
    std::get<actors::recipe<messages::spawn_replica>>(*table) = {
        .kind = actors::spawned_kind::rank,
        .name = [](const auto&) { return std::string("replica:0"); },
        .spawn =
            [this](const auto&, const actors::spawning&) {
              const auto made = system.listener(replica);
              return std::pair(caf::actor_cast<caf::actor>(made), messages::replica_spawned{made});
            }};
    prepared->node->env.watches_lanes = true;
    node = system.keep(
        system.home().spawn(actors::node,
                            std::shared_ptr<const actors::node_context>(prepared->node),
                            std::shared_ptr<const actors::spawn_table>(table)));
    root = system.keep(system.home().spawn([this](caf::event_based_actor* self) -> caf::behavior {
      return {[this, self](int) {
        self->request(node,
                      caf::infinite,
                      messages::spawn_replica{.generation = asked, .job = prepared->description})
            .then([](const messages::replica_spawned&) {}, [](const caf::error&) {});
      }};
    }));
    end.emplace(node);
    spawn(first_generation);  // the node opens the job
    if (is_told)
      begin();
  }

  void spawn(runtime::generation_id generation) {
    asked = generation;
    system.tell(root, 1);
  }
  void begin(runtime::generation_id generation = first_generation) {
    system.tell(
        node,
        messages::use_branches{
            .generation = generation,
            .process = 1,
            .above = system.listener(above),
            .below = {{2, caf::actor_cast<messages::node_actor>(system.listener(below[0])), true},
                      {3, caf::actor_cast<messages::node_actor>(system.listener(below[1])), false}},
            .replicas = 2});
    spawn(generation);
  }
  static messages::vote vote(int process, int replica) {
    return {.generation = first_generation,
            .step = runtime::step_id(1),
            .replica = replica,
            .losses = {{2, 1, process < 0 ? 0 : replica}},
            .gradients = {{.rank = replica, .zeros = 3}},
            .process = process};
  }
  static messages::kept kept(int process, std::uint64_t step, std::uint64_t stored = 0) {
    messages::keeper_disk disk{.of = {{process + 1, process + 2}}};
    if (stored > 0)
      disk.stored = {stored};
    return {first_generation, runtime::step_id(step), process, {disk}};
  }
  std::vector<std::string> waits_for() const {
    for (const auto& x : prepared->node->lanes->all())
      if (x.who == "node")
        return x.whom;
    return {};
  }

  tests::heard_by<messages::replica_actor> replica;
  std::array<tests::heard_by<messages::order_actor::extend<caf::reacts_to<messages::all_restored>>>,
             2>
      below;
  tests::heard_by<messages::report_actor> above;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::node_actor node;
  caf::actor root;  ///< plays the supervisor
  runtime::generation_id asked = {};
  std::optional<tests::ending> end;
};

const messages::run_step order{.generation = first_generation, .step = runtime::step_id(1)};

}  // namespace

TEST_CASE("a branch passes orders of its generation to its replicas and to those below",
          "[actors]") {
  branching it;
  it.system.tell(it.node, order);
  it.system.tell(it.node, messages::run_step{.generation = runtime::make_generation(0, 0)});
  CHECK(it.replica.of<messages::run_step>() == std::vector{order});
  CHECK(it.below[0].of<messages::run_step>() == std::vector{order});
  CHECK(it.below[1].of<messages::run_step>().empty());  // it leads to no replica
}

TEST_CASE("a branch merges the votes of its replicas and of branches below, in any order",
          "[actors]") {
  const bool first = GENERATE(true, false);
  branching it;
  it.system.tell(it.node, order);
  const auto own = branching::vote(-1, 0), other = branching::vote(2, 1);
  it.system.tell(it.node, first ? own : other);
  CHECK(it.above.of<messages::vote>().empty());
  CHECK(it.waits_for() == std::vector<std::string>{first ? "process:2" : "replica:0"});
  it.system.tell(it.node, first ? other : own);
  REQUIRE(it.above.of<messages::vote>().size() == 1);
  const auto& all = it.above.of<messages::vote>().front();
  CHECK(all.process == 1);
  REQUIRE(all.losses.size() == 2);
  CHECK((all.losses[0].number == 0 && all.losses[1].number == 1));
  REQUIRE(all.gradients.size() == 1);  // the ranks are alike
  CHECK(all.gradients[0].rank == 0);
  CHECK(all.gradients[0].zeros == 3);
  CHECK(all.gradients[0].alike == messages::index_ranges{{0, 2}});
  CHECK(it.waits_for().empty());
}

TEST_CASE("a branch reports once that all replicas stand, with the slowest transfer", "[actors]") {
  branching it;
  it.system.tell(it.node, messages::ready{first_generation, 1, 0.5, 1});
  it.system.tell(it.node, messages::ready{runtime::make_generation(0, 0), 0, 9, 1});
  CHECK(it.above.of<messages::ready>().empty());
  it.system.tell(it.node, messages::ready{first_generation, 0, 0.25, 1});
  REQUIRE(it.above.of<messages::ready>().size() == 1);
  CHECK(it.above.of<messages::ready>().front().replicas == 2);
  CHECK(it.above.of<messages::ready>().front().transfer == 0.5);
  const auto next = runtime::next(first_generation);
  it.begin(next);
  it.system.tell(it.node, messages::ready{next, 0, 0, 2});  // both live below
  REQUIRE(it.above.of<messages::ready>().size() == 2);
  CHECK(it.above.of<messages::ready>().back().transfer == 0);
}

TEST_CASE("BRANCH-1: more replicas than there are end the branch's process", "[actors]") {
  branching it;
  for (int i = 0; i < 3; ++i)
    it.system.tell(it.node, messages::ready{first_generation, 0});
  CHECK(it.end->is(messages::ec::protocol_violated));
}

TEST_CASE("a branch tells all below that the initial states are there", "[actors]") {
  branching it;
  int closed = 0;
  it.prepared->node->restored = [&closed] { ++closed; };
  it.system.tell(it.node, messages::all_restored{first_generation});
  CHECK(closed == 1);
  for (auto& other : it.below)
    CHECK(other.of<messages::all_restored>().size() == 1);
}

TEST_CASE("BRANCH-1: a repeated report ends the branch's process", "[actors]") {
  branching it;
  it.system.tell(it.node, branching::vote(2, 1));
  it.system.tell(it.node, branching::vote(2, 1));
  CHECK(it.end->is(messages::ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("BRANCH-1"));
}

TEST_CASE("a branch names the lowest replica with differing copies", "[actors]") {
  branching it;
  for (const int r : {1, 0})
    it.system.tell(it.node,
                   messages::applied{.generation = first_generation,
                                     .step = runtime::step_id(1),
                                     .replica = r,
                                     .state = {{.rank = r}},
                                     .unlike = "of " + std::to_string(r),
                                     .process = r == 1 ? 2 : -1});
  REQUIRE(it.above.of<messages::applied>().size() == 1);
  CHECK(it.above.of<messages::applied>().front().replica == 0);
  CHECK(it.above.of<messages::applied>().front().unlike == "of 0");
}

TEST_CASE("KEPT-2: a branch reports a step when its keeper and all branches below have it",
          "[actors]") {
  branching it;
  const auto& told = it.above.of<messages::kept>();
  it.system.tell(it.node, branching::kept(-1, 1));
  it.system.tell(it.node, branching::kept(2, 1));
  CHECK(told.empty());
  CHECK(it.waits_for() == std::vector<std::string>{"process:3"});
  it.system.tell(it.node, branching::kept(3, 1, 7));
  REQUIRE(told.size() == 1);
  CHECK(told[0].step == runtime::step_id(1));
  CHECK(told[0].process == 1);
  REQUIRE(told[0].disks.size() == 2);
  CHECK(told[0].disks[0].of == messages::index_ranges{{0, 1}, {3, 4}});
  CHECK(told[0].disks[1].of == messages::index_ranges{{4, 5}});
  it.system.tell(it.node, branching::kept(2, 2));
  CHECK(told.size() == 1);
  it.system.tell(it.node, branching::kept(3, 1));  // its new keeper has the step, too
  REQUIRE(told.size() == 2);
  CHECK(told[1].step == runtime::step_id(1));
  for (const int process : {-1, 3})
    it.system.tell(it.node, branching::kept(process, 2));
  REQUIRE(told.size() == 3);
  CHECK(told[2].step == runtime::step_id(2));
}

TEST_CASE("a branch handles what came before its place in the generation, and forgets the last one",
          "[actors]") {
  branching it(false);
  for (const int process : {-1, 2, 3})
    it.system.tell(it.node, branching::kept(process, 0));
  it.system.tell(it.node, order);
  it.begin();
  CHECK(it.above.of<messages::kept>().size() == 1);
  CHECK(it.below[0].of<messages::run_step>().size() == 1);
  it.system.tell(it.node, branching::vote(2, 1));
  const auto next = runtime::next(first_generation);
  it.begin(next);
  for (auto x : {branching::vote(2, 1), branching::vote(-1, 0)}) {
    it.system.tell(it.node, x);  // of the ended generation
    x.generation = next;
    it.system.tell(it.node, x);
  }
  REQUIRE(it.above.of<messages::vote>().size() == 1);
  CHECK(it.above.of<messages::vote>().front().generation == next);
}
