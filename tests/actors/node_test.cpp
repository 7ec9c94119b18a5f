// A node alone: admission, hosted actors, and the end of generations.

#include "actors/node/node.hpp"

#include "actors/job/every_actor.hpp"
#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <functional>
#include <tuple>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;

namespace {

struct hosting {
  explicit hosting(const runtime::training_job& job = tests::tiny_job(1, 1),
                   const std::shared_ptr<const actors::spawn_table>& recipes
                   = actors::every_actor()) {
    prepared = tests::without_threads(job);
    node = system.keep(system.home().spawn(
        actors::node, std::shared_ptr<const actors::node_context>(prepared->node), recipes));
    supervisor = system.listener(heard);
    root = system.keep(system.home().spawn([this](caf::event_based_actor* self) -> caf::behavior {
      return {[this, self](int) { next(self); }, [](const messages::taken_for_dead&) {}};
    }));
    end.emplace(node);
  }

  /// Sends the request as the root, and returns the answer.
  template <class Answer, class Request>
  std::optional<Answer> ask(const Request& x) {
    std::optional<Answer> out;
    refusal = {};
    next = [&](caf::event_based_actor* self) {
      self->request(node, caf::infinite, x)
          .then([&](const Answer& y) { out = y; }, [&](const caf::error& e) { refusal = e; });
    };
    system.tell(root, 1);
    return out;
  }
  /// Orders the end of the first generation, as the root; `to` gets the answer later.
  void order_end(std::optional<messages::generation_ended>& to) {
    next = [this, &to](caf::event_based_actor* self) {
      self->request(node,
                    caf::infinite,
                    messages::end_generation{first_generation, prepared->description})
          .then([&to](const messages::generation_ended& x) { to = x; });
    };
    system.tell(root, 1);
  }
  bool may_deposit(runtime::generation_id generation = first_generation) {
    try {
      runtime::bundle x;
      x.add("x", runtime::tensor(prepared->node->pool.allocate(4), runtime::dtype::f32, {1}));
      runtime::deposit(*prepared->node->transport, x, generation);
      return true;
    } catch (const runtime::cancelled&) {
      return false;
    }
  }

  tests::heard_by<messages::supervisor_actor> heard;
  std::function<void(caf::event_based_actor*)> next;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::node_actor node;
  messages::supervisor_actor supervisor;
  caf::actor root;  ///< plays the supervisor
  caf::error refusal;
  std::optional<tests::ending> end;
};

/// A table with one recipe, of a keeper that does nothing; its name is the number of the process.
struct played_keepers {
  explicit played_keepers(bool replaces) {
    std::get<actors::recipe<messages::spawn_keeper>>(*table) = {
        .name = [](const auto& x) { return fmt::format("keeper {}", x.process); },
        .spawn =
            [this](const auto&, const actors::spawning& by) {
              const messages::keeper_actor made
                  = by.home.spawn([]() -> messages::keeper_actor::behavior_type {
                      return {[](const messages::keep&) {},
                              [](const messages::fetch_kept&) {},
                              [](const messages::store_kept&) {}};
                    });
              ends.push_back(by.ends);
              services.push_back(by.services);
              return std::pair(caf::actor_cast<caf::actor>(made), messages::keeper_spawned{made});
            },
        .replaces = replaces};
  }

  std::shared_ptr<actors::spawn_table> table = std::make_shared<actors::spawn_table>();
  std::vector<runtime::cancel_token> ends, services;  ///< of each keeper
};

}  // namespace

TEST_CASE("a recipe that replaces ends the actor of the same name that lives here", "[actors]") {
  const bool replaces = GENERATE(true, false);
  played_keepers played(replaces);
  hosting it(tests::tiny_job(1, 1), played.table);
  messages::spawn_keeper order{first_generation, it.prepared->description, 0, it.supervisor};
  const auto first = it.ask<messages::keeper_spawned>(order);
  order.process = 1;
  const auto other = it.ask<messages::keeper_spawned>(order);
  REQUIRE(first);
  REQUIRE(other);
  const tests::ending of_first(first->keeper), of_other(other->keeper);
  order.process = 0;
  const auto second = it.ask<messages::keeper_spawned>(order);
  REQUIRE(second);
  CHECK(of_first.has_come() == replaces);
  CHECK_FALSE(of_other.has_come());
  CHECK_FALSE(tests::ending(second->keeper).has_come());
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("the token of an actor is cancelled when it hangs, and with its supervisor's epoch",
          "[actors]") {
  played_keepers played(false);
  hosting it(tests::tiny_job(1, 1), played.table);
  messages::spawn_keeper order{first_generation, it.prepared->description, 0, it.supervisor};
  REQUIRE(it.ask<messages::keeper_spawned>(order));
  order.process = 1;
  REQUIRE(it.ask<messages::keeper_spawned>(order));
  it.system.tell(it.node, messages::suspected{first_generation, "keeper 1", "it hangs"});
  CHECK(played.ends[1].is_cancelled());
  CHECK_FALSE(played.services[1].is_cancelled());
  CHECK_FALSE(played.ends[0].is_cancelled());
  it.system.tell(it.node, messages::shut_down{});
  CHECK(played.ends[0].is_cancelled());
  CHECK(played.services[0].is_cancelled());
}

TEST_CASE("a process without access to the checkpoint folder ends the run before its first step",
          "[actors]") {
  auto job = tests::tiny_job(1, 1);
  job.layout.processes = 1;
  job.checkpoints.save = "/nowhere/of/this/host";
  hosting it(job);
  messages::spawn_shard_writer order{first_generation, it.prepared->description, 1, true};
  CHECK_FALSE(it.ask<messages::shard_writer_spawned>(order));
  CHECK(is(it.refusal, ec::refused));
  CHECK_THAT(messages::text_of(it.refusal),
             ContainsSubstring("process 1 on host '") && ContainsSubstring("/nowhere/of/this/host")
                 && ContainsSubstring("a folder that all processes of the run see"));
  order.generation = runtime::next(first_generation);  // later a failing disk can be the reason
  CHECK(it.ask<messages::shard_writer_spawned>(order));
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a node spawns a worker on request, with the resources of its process", "[actors]") {
  hosting it;
  const auto answer = it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description});
  REQUIRE(answer);
  const auto batch = it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"});
  REQUIRE(batch);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("NODE-1: a request to spawn into an ended generation is refused", "[actors]") {
  hosting it;
  const auto second = runtime::generation_id(2);
  REQUIRE(
      it.ask<messages::loader_spawned>(messages::spawn_loader{second, it.prepared->description}));
  CHECK_FALSE(it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description}));
  CHECK(messages::is(it.refusal, ec::cancelled));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-1"));
  CHECK_FALSE(it.ask<messages::viewer_spawned>(
      messages::spawn_viewer{first_generation, it.prepared->description, "mine", it.supervisor}));
  CHECK(messages::is(it.refusal, ec::cancelled));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-1"));
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("NODE-1: a generation that was ended stays closed, even if it was empty", "[actors]") {
  hosting it;
  std::optional<messages::generation_ended> ended;
  it.order_end(ended);
  REQUIRE(ended);
  const messages::spawn_stage late{first_generation, it.prepared->description, {}, 0, "0.0"};
  CHECK_FALSE(it.ask<messages::stage_spawned>(late));
  CHECK(messages::is(it.refusal, ec::cancelled));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-1"));
  CHECK_FALSE(it.ask<messages::replica_spawned>(
      messages::spawn_replica{.generation = first_generation, .job = it.prepared->description}));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-1"));
  auto next = late;
  next.generation = runtime::generation_id(2);
  CHECK(it.ask<messages::stage_spawned>(next));
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a job with a function that a process does not have is refused", "[actors]") {
  hosting it;
  auto job = tests::tiny_job(1, 1);
  job.training.own.name = "squares";
  messages::job_description told{.settings = runtime::to_json(job)};
  CHECK_FALSE(it.ask<messages::loader_spawned>(messages::spawn_loader{first_generation, told}));
  CHECK(it.end->is(ec::refused));
  CHECK_THAT(it.end->text(),
             ContainsSubstring("node: ") && ContainsSubstring("the model extension 'squares'"));
}

TEST_CASE("a viewer that a process does not have is refused, and the node lives", "[actors]") {
  hosting it;
  CHECK_FALSE(it.ask<messages::viewer_spawned>(
      messages::spawn_viewer{first_generation, it.prepared->description, "mine", it.supervisor}));
  CHECK(messages::is(it.refusal, ec::refused));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("'mine'"));
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("the death of a rank releases its generation at once, that of a service does not",
          "[actors]") {
  hosting it;
  const auto loader = it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description});
  const auto stage = it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"});
  REQUIRE(loader);
  REQUIRE(stage);
  it.system.kill(loader->loader, messages::make_error(ec::refused, "loader: broken"));
  CHECK(it.may_deposit());
  it.system.kill(stage->stage, messages::make_error(ec::refused, "stage: broken"));
  CHECK_FALSE(it.may_deposit());
  CHECK_FALSE(it.end->has_come());  // the supervisor decides how to go on
}

TEST_CASE("NODE-2: a generation has ended when its actors and lanes have ended", "[actors]") {
  hosting it;
  it.prepared->node->estates->of(0);
  const auto loader = it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description});
  const auto stage = it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"});
  REQUIRE(loader);
  REQUIRE(stage);
  const tests::ending service(loader->loader), rank(stage->stage);
  auto lane = it.prepared->node->living->enter({first_generation, "lane:0.7", 7});
  std::optional<messages::generation_ended> answer;
  it.order_end(answer);
  CHECK(rank.has_come());
  CHECK_FALSE(service.has_come());
  CHECK_FALSE(it.may_deposit());
  CHECK_FALSE(answer);
  lane.reset();
  it.system.run();
  REQUIRE(answer);
  CHECK(answer->hung.empty());
  CHECK_FALSE(answer->has_state);  // a state of rank 0 was never sealed
  // The generation stays closed.
  CHECK_FALSE(it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"}));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-1"));
}

TEST_CASE("NODE-2: a hung lane is left behind after the failure detector's timeout", "[actors]") {
  hosting it;
  REQUIRE(it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"}));
  const auto lane = it.prepared->node->living->enter({first_generation, "lane:0.7", 7});
  std::optional<messages::generation_ended> answer;
  it.order_end(answer);
  CHECK_FALSE(answer);
  it.system.advance(std::chrono::seconds(11));
  REQUIRE(answer);
  CHECK(answer->hung == std::vector<std::string>{"lane:0.7"});
}

TEST_CASE("NODE-2: a lane that is known to hang is left behind at once", "[actors]") {
  hosting it;
  const auto stage = it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"});
  REQUIRE(stage);
  const tests::ending rank(stage->stage);
  const auto lane = it.prepared->node->living->enter({first_generation, "lane:0.0", 0});
  it.system.tell(it.node, messages::suspected{first_generation, "lane:0.0", "lane:0.0 hangs"});
  CHECK(rank.text() == "stage:0.0: lane:0.0 hangs");
  std::optional<messages::generation_ended> answer;
  it.order_end(answer);
  REQUIRE(answer);  // at once
  CHECK(answer->hung == std::vector<std::string>{"lane:0.0"});
}

TEST_CASE("NODE-3: actors that a superseded node spawns end at once", "[actors]") {
  hosting it;
  const messages::spawn_stage order{first_generation, it.prepared->description, {}, 0, "0.0"};
  const auto stage = it.ask<messages::stage_spawned>(order);
  REQUIRE(stage);
  const tests::ending before(stage->stage);
  it.prepared->node->held->get()->end();  // as the front does
  it.system.run();
  CHECK(before.has_come());
  CHECK_FALSE(it.may_deposit());
  const auto late = it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description});
  REQUIRE(late);
  CHECK(tests::ending(late->loader).has_come());
}

TEST_CASE("NODE-3: orders of a superseded supervisor are refused", "[actors]") {
  hosting it;
  auto job = tests::tiny_job(1, 1);
  job.recovery.on = true;
  const auto told = tests::without_threads(job)->description;
  const auto successors = runtime::make_generation(1, 0);
  REQUIRE(it.ask<messages::generation_ended>(messages::end_generation{successors, told}));
  CHECK_FALSE(it.ask<messages::generation_ended>(messages::end_generation{first_generation, told}));
  CHECK(messages::is(it.refusal, ec::cancelled));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-3"));
  CHECK_FALSE(it.ask<messages::loader_spawned>(messages::spawn_loader{first_generation, told}));
  CHECK_THAT(messages::text_of(it.refusal), ContainsSubstring("NODE-3"));
}

TEST_CASE("a report of a hang outside the node's ranks or generation is ignored", "[actors]") {
  hosting it;
  const auto stage = it.ask<messages::stage_spawned>(
      messages::spawn_stage{first_generation, it.prepared->description, {}, 0, "0.0"});
  REQUIRE(stage);
  const tests::ending rank(stage->stage);
  const auto next = runtime::next(first_generation);
  it.system.tell(it.node, messages::suspected{next, "stage:0.0", "of another generation"});
  it.system.tell(it.node, messages::suspected{first_generation, "supervisor", "no rank"});
  CHECK_FALSE(rank.has_come());
  CHECK(it.may_deposit());
}

TEST_CASE("after the death of its supervisor a node stops its actors and ends", "[actors]") {
  hosting it;
  const auto answer = it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description});
  REQUIRE(answer);
  const tests::ending loader(answer->loader);
  it.system.kill(it.root, messages::make_error(ec::refused, "supervisor: broken"));
  CHECK(loader.has_come());
  CHECK(it.end->has_come());
}

TEST_CASE("a node survives the death of a successor after its first order", "[actors]") {
  hosting it;
  auto job = tests::tiny_job(1, 1);
  job.recovery.on = true;
  const auto told = tests::without_threads(job)->description;
  REQUIRE(it.ask<messages::generation_ended>(messages::end_generation{first_generation, told}));
  it.system.kill(it.root, messages::make_error(ec::refused, "supervisor: broken"));
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("late news of a supervisor's death does not affect its successor", "[actors]") {
  hosting it;
  auto job = tests::tiny_job(1, 1);
  job.recovery.on = true;
  const auto told = tests::without_threads(job)->description;
  REQUIRE(it.ask<messages::loader_spawned>(messages::spawn_loader{first_generation, told}));
  const auto old = std::exchange(
      it.root, it.system.keep(it.system.home().spawn([&](caf::event_based_actor* self) {
        return caf::behavior{[&it, self](int) { it.next(self); }};
      })));
  const auto next = runtime::make_generation(1, 0);
  REQUIRE(it.ask<messages::generation_ended>(messages::end_generation{next, told}));
  REQUIRE(it.ask<messages::loader_spawned>(
      messages::spawn_loader{runtime::make_generation(1, 1), told}));
  it.system.kill(old, messages::make_error(ec::refused, "supervisor: broken"));
  CHECK(it.may_deposit(runtime::make_generation(1, 1)));
}

TEST_CASE("a shutdown stops the newest actors first", "[actors]") {
  hosting it;
  const auto first = it.ask<messages::loader_spawned>(
      messages::spawn_loader{first_generation, it.prepared->description});
  const auto second = it.ask<messages::monitor_spawned>(
      messages::spawn_monitor{first_generation, it.prepared->description});
  REQUIRE(first);
  REQUIRE(second);
  std::vector<std::string> order;
  caf::actor_cast<caf::actor>(first->loader)->attach_functor([&] { order.emplace_back("loader"); });
  caf::actor_cast<caf::actor>(second->monitor)->attach_functor([&] {
    order.emplace_back("monitor");
  });
  it.system.tell(it.node, messages::shut_down{});
  CHECK(order == std::vector<std::string>{"monitor", "loader"});
  CHECK(it.end->has_come());
}
