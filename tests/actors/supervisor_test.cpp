// A supervisor alone; the test plays its node and the actors that it spawns.

#include "actors/supervisor/supervisor.hpp"

#include "runtime/optim/optimizer_state.hpp"
#include "tests/support/branch_handlers.hpp"
#include "tests/support/deterministic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;

namespace {

/// A supervisor of two replicas.
struct supervised {
  explicit supervised(std::uint64_t iterations = 2,
                      bool refuses_viewers = false,
                      bool recovers = false,
                      const std::function<void(runtime::training_job&)>& change = {}) {
    auto job = tests::tiny_job(1, 2);
    if (change)
      change(job);
    job.recovery.on = recovers;
    job.train_iterations = iterations;
    prepared = tests::without_threads(job);
    auto told = prepared->description;
    told.viewers = {"mine"};
    loader = system.keep(system.home().spawn([]() -> messages::loader_actor::behavior_type {
      return {[](const messages::request_batch& x) { return messages::batch_ready{x.at, {}}; }};
    }));
    node = system.keep(system.home().spawn([this,
                                            refuses_viewers](messages::node_actor::pointer self)
                                               -> messages::node_actor::behavior_type {
      return tests::as_branch(
          none,

          [this](const messages::spawn_loader&) { return messages::loader_spawned{loader}; },
          [](const messages::spawn_keeper&) { return messages::keeper_spawned{}; },
          [this](const messages::spawn_checkpointer&) {
            checkpointer = system.listener(saver);
            return messages::checkpointer_spawned{checkpointer};
          },
          [](const messages::spawn_shard_writer&) { return messages::shard_writer_spawned{}; },
          [this](const messages::spawn_monitor&) {
            return messages::monitor_spawned{monitor = spawn_monitor()};
          },
          [this, refuses_viewers](
              const messages::spawn_viewer&) -> caf::result<messages::viewer_spawned> {
            if (refuses_viewers)
              return messages::make_error(ec::refused, "there is no viewer 'mine'");
            return messages::viewer_spawned{viewer = system.listener(watcher)};
          },
          [this](const messages::spawn_replica& x) {
            asked.push_back(x);
            const auto i = std::size_t(x.replica);
            return messages::replica_spawned{replicas[i] = system.listener(heard[i])};
          },
          [](const messages::spawn_stage&) { return messages::stage_spawned{}; },
          [this](const messages::end_generation& x) {
            ended.push_back(x.last);
            return messages::generation_ended{
                .last = x.last, .has_state = true, .oldest = kept, .newest = kept, .ranks = stood};
          },
          [](const messages::find_stored&) { return messages::stored_found{}; },
          [](const messages::measure&) { return messages::measured{}; },
          [](const messages::look_again&) {},
          [](const messages::suspected&) {},
          [this](const messages::all_restored&) { ++restored; },
          [this, self](const messages::shut_down&) {
            shut_down = true;
            self->quit();
          });
    }));
    supervisor = system.keep(
        system.home().spawn(actors::supervisor,
                            node,
                            told,
                            std::shared_ptr<const actors::node_context>(prepared->node),
                            messages::front_actor(),
                            actors::succession{}));
    end.emplace(supervisor);
    system.run();
  }

  messages::monitor_actor spawn_monitor() {
    return system.keep(system.home().spawn([this]() -> messages::monitor_actor::behavior_type {
      return {[this](const messages::committed& x) { committed.push_back(x); },
              [](const messages::validated&) {},
              [this](const messages::happened& x) { happened.push_back(x); },
              [](const messages::use_processes&) {},
              [](const messages::sample_due&) {},
              [](const messages::conclude& x) { return messages::concluded{x.generation}; }};
    }));
  }

  void all_ready() {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor, messages::ready{first_generation, r});
  }
  void carry_out(std::uint64_t step) {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor, vote(r, step));
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor, applied(r, step));
  }
  static messages::vote vote(int replica, std::uint64_t step = 1) {
    return {.generation = first_generation,
            .step = runtime::step_id(step),
            .replica = replica,
            .losses = {{2, 1}},
            .gradients = {{.rank = replica}}};
  }
  static messages::applied applied(int replica, std::uint64_t step = 1) {
    return {.generation = first_generation,
            .step = runtime::step_id(step),
            .replica = replica,
            .state = {{.rank = replica, .own = {{"w", {step, 7}}}, .bits = {step, 7}}}};
  }
  std::size_t steps() { return heard[0].of<messages::run_step>().size(); }
  std::size_t decisions() { return heard[0].of<messages::decision>().size(); }

  std::array<tests::heard_by<messages::replica_actor>, 2> heard;
  tests::heard_by<messages::checkpointer_actor> saver;
  tests::heard_by<messages::viewer_actor> watcher;
  std::vector<messages::spawn_replica> asked;
  std::vector<messages::committed> committed;
  std::vector<messages::happened> happened;
  std::vector<runtime::generation_id> ended;
  std::uint64_t kept = 0;  ///< step that all ranks report as kept
  int stood = 2;           ///< ranks that report a state
  int restored = 0;
  bool shut_down = false;
  tests::deterministic system;
  std::shared_ptr<actors::prepared_job> prepared;
  messages::node_actor node;
  messages::loader_actor loader;
  messages::checkpointer_actor checkpointer;
  messages::monitor_actor monitor;
  messages::viewer_actor viewer;
  std::array<messages::replica_actor, 2> replicas;
  std::vector<messages::replica_actor> none;
  messages::supervisor_actor supervisor;
  std::optional<tests::ending> end;
};

}  // namespace

TEST_CASE("a supervisor sends each replica its settings, and begins when all are ready",
          "[actors]") {
  supervised it;
  REQUIRE(it.asked.size() == 2);
  CHECK(it.asked[1].replica == 1);
  REQUIRE(it.asked[1].processes.size() == 1);
  CHECK(it.asked[1].processes.front().loader == it.loader);
  CHECK(it.asked[1].checkpointer == it.checkpointer);
  CHECK(it.asked[1].supervisor == it.supervisor);
  it.system.tell(it.supervisor, messages::ready{first_generation, 0});
  it.system.tell(it.supervisor, messages::ready{runtime::generation_id(2), 1});
  CHECK(it.steps() == 0);
  CHECK(it.restored == 0);
  it.system.tell(it.supervisor, messages::ready{first_generation, 1});
  CHECK(it.steps() == 1);
  CHECK(it.restored == 1);
}

TEST_CASE("a supervisor tells the other replicas of a group how to join it", "[actors]") {
  supervised it;
  messages::group_opened opened{
      .generation = first_generation, .group = "data", .members = {0, 1}, .id = {1, 2}};
  it.system.tell(it.supervisor, opened);
  opened.generation = runtime::generation_id(9);
  it.system.tell(it.supervisor, opened);
  CHECK(it.heard[0].of<messages::group_opened>().empty());  // its stage has sent it
  REQUIRE(it.heard[1].of<messages::group_opened>().size() == 1);
  CHECK(it.heard[1].of<messages::group_opened>().front().group == "data");
}

TEST_CASE("a supervisor decides after all votes, commits after all have applied, and ends",
          "[actors]") {
  supervised it;
  it.all_ready();
  for (std::uint64_t step = 1; step <= 2; ++step) {
    it.system.tell(it.supervisor, supervised::vote(1, step));
    CHECK(it.decisions() == step - 1);
    it.system.tell(it.supervisor, supervised::vote(0, step));
    CHECK(it.decisions() == step);
    it.system.tell(it.supervisor, supervised::applied(0, step));
    CHECK(it.committed.size() == step - 1);
    it.system.tell(it.supervisor, supervised::applied(1, step));
    REQUIRE(it.committed.size() == step);
    CHECK(it.committed.back().report.iteration == step);
    CHECK(it.watcher.of<messages::committed>().size() == step);
  }
  CHECK(it.shut_down);
  CHECK(it.end->has_come());
  CHECK(it.end->text() == "it ended normally");
}

TEST_CASE("a supervisor asks for the rows of experts in logged steps, and reports their sum",
          "[actors]") {
  const std::uint64_t listed = GENERATE(0, 3);
  CAPTURE(listed);
  supervised it(5, false, false, [&](auto& job) {
    job.watch.log_interval = 4;
    job.watch.expert_counts = listed;
  });
  it.all_ready();
  for (std::uint64_t step = 1; step <= 5; ++step) {
    for (int r = 0; r < 2; ++r) {
      auto x = supervised::vote(r, step);
      if (it.heard[0].of<messages::run_step>().back().counts_experts)
        x.experts = {{.unit = 2, .dropped = 1, .counts = {3, std::int64_t(step)}}};
      it.system.tell(it.supervisor, x);
    }
    for (int r = 0; r < 2; ++r)
      it.system.tell(it.supervisor, supervised::applied(r, step));
    REQUIRE(it.committed.size() == step);
    const auto& found = it.committed.back().report.experts;
    const bool counted = step != 2 && (step != 3 || listed > 0);
    REQUIRE(found.size() == std::size_t(counted));
    if (!counted)
      continue;
    CHECK(found.front().layer == "decoder.layers.1");
    CHECK(found.front().most == 2 * std::max<std::int64_t>(3, std::int64_t(step)));
    CHECK(found.front().least == 2 * std::min<std::int64_t>(3, std::int64_t(step)));
    CHECK(found.front().dropped == 2);
    CHECK(found.front().counts.empty() == (listed == 0 || step != 3));
  }
}

TEST_CASE("STEP-12: votes about other experts end the job", "[actors]") {
  const std::int64_t unit = GENERATE(2, 99, -1);  // a layer, and numbers that no unit has
  CAPTURE(unit);
  supervised it;
  it.all_ready();
  for (int r = 0; r < 2; ++r) {
    auto x = supervised::vote(r);
    x.experts = {{.unit = unit, .counts = std::vector<std::int64_t>(unit == 2 && r == 1 ? 3 : 2)}};
    it.system.tell(it.supervisor, x);
  }
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-12"));
}

TEST_CASE("a supervisor announces the data of the next step", "[actors]") {
  const bool stops = GENERATE(true, false);
  supervised it(stops ? 100 : 3, false, false, [&](auto& job) {
    auto& batch = job.training.batch;
    batch.ramp_start = batch.ramp_increment = batch.ramp_samples = batch.global / 2;
    job.exit_interval = stops ? 3 : 0;
  });
  it.all_ready();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    REQUIRE(it.steps() == step);
    it.carry_out(step);
  }
  CHECK(it.shut_down);
  const auto& told = it.heard[0].of<messages::run_step>();
  CHECK(told[0].microbatches == 1);
  CHECK(told[1].microbatches == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(told[i].next_consumed == told[i + 1].consumed);
    CHECK(told[i].next_microbatches == told[i + 1].microbatches);
  }
  CHECK(told[2].next_microbatches == 0);
}

TEST_CASE("STEP-1: a state before all votes ends the job", "[actors]") {
  supervised it;
  it.all_ready();
  it.system.tell(it.supervisor, supervised::vote(0));
  it.system.tell(it.supervisor, supervised::applied(0));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("supervisor: STEP-1"));
  CHECK(it.decisions() == 0);
}

TEST_CASE("STEP-2: replicas with different gradients end the job", "[actors]") {
  supervised it;
  it.all_ready();
  auto other = supervised::vote(1);
  other.gradients[0].bits = {1, 1};
  it.system.tell(it.supervisor, supervised::vote(0));
  it.system.tell(it.supervisor, other);
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-2"));
}

TEST_CASE("STEP-3: a vote for another step than the running one ends the job", "[actors]") {
  const std::uint64_t step = GENERATE(0, 2);
  supervised it;
  it.all_ready();
  it.system.tell(it.supervisor, supervised::vote(0, step));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-3"));
}

TEST_CASE("STEP-3: a vote for a committed step ends the job, which commits it once", "[actors]") {
  supervised it;
  it.all_ready();
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::vote(r));
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::applied(r));
  REQUIRE(it.committed.size() == 1);
  it.system.tell(it.supervisor, supervised::vote(0));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-3"));
  CHECK(it.committed.size() == 1);
}

TEST_CASE("STEP-5: replicas with different states end the job", "[actors]") {
  supervised it;
  it.all_ready();
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::vote(r));
  auto other = supervised::applied(1);
  other.state[0].own["w"] = other.state[0].bits = {9, 9};
  it.system.tell(it.supervisor, supervised::applied(0));
  it.system.tell(it.supervisor, other);
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-5"));
  CHECK(it.committed.empty());
}

TEST_CASE("STEP-6: a replica with different copies of a parameter ends the job", "[actors]") {
  supervised it;
  it.all_ready();
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::vote(r));
  for (int r = 0; r < 2; ++r) {
    auto applied = supervised::applied(r);
    applied.unlike = "norm";
    it.system.tell(it.supervisor, applied);
  }
  CHECK_THAT(it.end->text(),
             ContainsSubstring("replica:0: STEP-6") && ContainsSubstring("but not norm"));
  CHECK(it.committed.empty());
}

TEST_CASE("STEP-6: a copy of experts equals its owner in another replica", "[actors]") {
  const std::uint64_t copied = GENERATE(2, 3);
  const bool is_owned = GENERATE(true, false);
  supervised it;
  it.all_ready();
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::vote(r));
  for (int r = 0; r < 2; ++r) {
    auto applied = supervised::applied(r);
    auto& experts = applied.state.emplace_back(
        messages::updated_state{.rank = r, .layers = runtime::axis_view::experts});
    if (r == 0 && is_owned)
      experts.own = {{"bias", {1, 2}}};
    if (r == 1)
      experts.copies = {{"bias", {1, copied}}};
    it.system.tell(it.supervisor, applied);
  }
  const bool is_alike = is_owned && copied == 2;
  CHECK(it.committed.size() == (is_alike ? 1 : 0));
  if (!is_alike)
    CHECK_THAT(it.end->text(),
               ContainsSubstring("replica:1: STEP-6")
                   && ContainsSubstring(is_owned ? "but not bias" : "but no rank owns bias"));
}

TEST_CASE("VERIFY-1: with two replicas a supervisor names the guilty one after the repeated step",
          "[actors]") {
  const int guilty = GENERATE(0, 1);
  supervised it(100, false, true);
  it.all_ready();
  const auto vote = [&](int replica, std::uint64_t digest, runtime::generation_id generation) {
    auto x = supervised::vote(replica);
    x.generation = generation;
    x.gradients = {
        {.rank = replica,
         .square_norms = {{"w", runtime::exact_sum(double(digest))}, {"b", runtime::exact_sum(1)}},
         .bits = {digest, 1}}};
    it.system.tell(it.supervisor, x);
  };
  for (int r = 0; r < 2; ++r)
    vote(r, r == guilty ? 9 : 5, first_generation);
  CHECK_FALSE(it.end->has_come());
  CHECK(it.decisions() == 0);
  REQUIRE(it.asked.size() == 4);
  const auto second = runtime::make_generation(0, 2);
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, messages::ready{second, r});
  REQUIRE(it.happened.size() == 1);
  CHECK(it.happened[0].event.kind == "restart");
  CHECK_THAT(it.happened[0].event.why, ContainsSubstring("STEP-2") && ContainsSubstring("(w)"));
  for (int r = 0; r < 2; ++r)
    vote(r, 5, second);
  REQUIRE(it.happened.size() == 2);
  const auto& x = it.happened[1].event;
  CHECK(x.kind == "wrong bits");
  CHECK(x.verdict == "transient");
  CHECK(x.who == "stage:" + std::to_string(guilty) + ".0");
  CHECK_THAT(x.why, ContainsSubstring("step 1 (w)"));
}

TEST_CASE("STEP-8: a second vote of one replica does not count for the other", "[actors]") {
  supervised it;
  it.all_ready();
  it.system.tell(it.supervisor, supervised::vote(0));
  it.system.tell(it.supervisor, supervised::vote(0));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-8"));
}

TEST_CASE("STEP-10: a vote has losses of its own replica", "[actors]") {
  supervised it;
  it.all_ready();
  auto x = supervised::vote(0);
  x.losses.front().number = GENERATE(-1, 1);
  it.system.tell(it.supervisor, x);
  it.system.tell(it.supervisor, supervised::vote(1));
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-10"));
}

TEST_CASE("STEP-11: a replica reports each of its ranks once", "[actors]") {
  const auto wrong
      = GENERATE(std::vector<int>{}, std::vector{0, 0}, std::vector{1}, std::vector{-1});
  supervised it;
  it.all_ready();
  SECTION("in votes") {
    auto x = supervised::vote(0);
    x.gradients.clear();
    for (const int rank : wrong)
      x.gradients.push_back({.rank = rank});
    it.system.tell(it.supervisor, x);
    it.system.tell(it.supervisor, supervised::vote(1));
  }
  SECTION("in reports of states") {
    for (int r = 0; r < 2; ++r)
      it.system.tell(it.supervisor, supervised::vote(r));
    auto x = supervised::applied(0);
    x.state.clear();
    for (const int rank : wrong)
      x.state.push_back({.rank = rank});
    it.system.tell(it.supervisor, x);
    it.system.tell(it.supervisor, supervised::applied(1));
  }
  CHECK(it.end->is(ec::protocol_violated));
  CHECK_THAT(it.end->text(), ContainsSubstring("STEP-11"));
}

TEST_CASE("SEATS-1: parameters that replicas hold alike count once, of experts as well",
          "[actors]") {
  supervised it;
  it.all_ready();
  const auto experts = runtime::axis_view::experts;
  for (int r = 0; r < 2; ++r) {
    auto x = supervised::vote(r);
    x.gradients = {{.rank = r, .square_norms = {{"w", runtime::exact_sum(9)}}},
                   {.rank = r, .layers = experts, .square_norms = {{"e", runtime::exact_sum(16)}}}};
    it.system.tell(it.supervisor, x);
  }
  for (int r = 0; r < 2; ++r) {
    auto x = supervised::applied(r);
    x.state.push_back({.rank = r, .layers = experts, .own = {{"e", {1, 8}}}, .bits = {1, 8}});
    it.system.tell(it.supervisor, x);
  }
  REQUIRE(it.committed.size() == 1);
  CHECK(it.committed[0].report.grad_norm == 5);
  CHECK(it.committed[0].report.state
        == runtime::combine(std::map<std::string, runtime::digest>{{"w", {1, 7}}, {"e", {1, 8}}}));
}

TEST_CASE("a supervisor ignores messages of another generation", "[actors]") {
  supervised it;
  it.all_ready();
  auto stale = supervised::vote(0);
  stale.generation = runtime::generation_id(GENERATE(0, 2));
  it.system.tell(it.supervisor, stale);
  it.system.tell(it.supervisor, supervised::vote(0));
  CHECK(it.decisions() == 0);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a supervisor ends with the cause of the death of an actor that it depends on",
          "[actors]") {
  const std::string who = GENERATE("loader", "checkpointer", "monitor", "replica");
  supervised it;
  it.all_ready();
  const auto reason = messages::make_error(ec::refused, who + ": the disk is gone");
  if (who == "loader")
    it.system.kill(it.loader, reason);
  else if (who == "checkpointer")
    it.system.kill(it.checkpointer, reason);
  else if (who == "monitor")
    it.system.kill(it.monitor, reason);
  else
    it.system.kill(it.replicas[1], reason);
  CHECK(it.end->is(ec::refused));
  CHECK(it.end->text() == who + ": the disk is gone");
}

TEST_CASE("a run with unreadable data ends after the save in progress", "[actors]") {
  const bool saves = GENERATE(true, false), dies = GENERATE(true, false);
  supervised it(5, false, false, [&](runtime::training_job& job) {
    job.checkpoints.save = "nowhere";
    job.checkpoints.save_interval = saves ? 1 : 4;
  });
  it.all_ready();
  it.carry_out(1);
  REQUIRE(it.steps() == 2);
  it.system.kill(it.loader, messages::make_error(ec::refused, "loader: no data"));
  CHECK(it.end->has_come() == !saves);
  it.system.tell(it.supervisor, supervised::vote(1, 2));  // from the replica with readable data
  if (saves) {
    CHECK_FALSE(it.end->has_come());
    const auto order = it.saver.of<messages::save>().at(0);
    CHECK(order.step == runtime::step_id(1));
    if (dies)  // its parts can be needed for the checkpoint
      it.system.kill(it.replicas[0], messages::make_error(ec::protocol_violated, "broken"));
    else
      it.system.tell(it.supervisor, messages::saved{order.generation, order.step, order.attempt});
  }
  CHECK(it.end->is(ec::refused));
  CHECK(it.end->text() == "loader: no data");
  CHECK(it.decisions() == 1);
  CHECK(it.committed.size() == 1);
}

TEST_CASE("a supervisor treats a hung actor as dead when its node reports it", "[actors]") {
  const std::string who = GENERATE("loader", "checkpointer", "monitor", "replica:1");
  supervised it;
  it.all_ready();
  const auto hangs = who + ": it hangs";
  if (who == "replica:1")
    it.system.tell(it.supervisor,
                   messages::taken_for_dead{runtime::generation_id{0}, who, "of another"});
  it.system.tell(it.supervisor, messages::taken_for_dead{first_generation, "viewer", "no matter"});
  CHECK_FALSE(it.end->has_come());
  it.system.tell(it.supervisor, messages::taken_for_dead{first_generation, who, hangs});
  CHECK(it.end->is(ec::protocol_violated));
  CHECK(it.end->text() == hangs);
}

TEST_CASE("a replica that was only cancelled is not the cause of a job's end", "[actors]") {
  supervised it;
  it.all_ready();
  it.system.kill(it.replicas[0], messages::make_error(ec::cancelled, "the generation has ended"));
  CHECK_FALSE(it.end->has_come());
  it.system.kill(it.replicas[1], messages::make_error(ec::protocol_violated, "replica:1: broken"));
  CHECK(it.end->text() == "replica:1: broken");
}

TEST_CASE("the death of a viewer is ignored, and a refused viewer ends the job", "[actors]") {
  supervised it;
  it.all_ready();
  it.system.kill(it.viewer, messages::make_error(ec::protocol_violated, "viewer: broken"));
  CHECK_FALSE(it.end->has_come());
  supervised refused(2, true);
  CHECK(refused.end->text() == "there is no viewer 'mine'");
}

TEST_CASE("a supervisor that is asked to stop finishes the step first", "[actors]") {
  supervised it(100);
  it.all_ready();
  it.system.tell(it.supervisor, messages::drain{"SIGTERM"});
  CHECK_FALSE(it.shut_down);
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::vote(r));
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::applied(r));
  CHECK(it.committed.size() == 1);
  CHECK(it.steps() == 1);
  CHECK(it.shut_down);
}

TEST_CASE("a rank that never had a state cannot go back to one", "[actors]") {
  const bool all = GENERATE(true, false);
  supervised it(100, false, true);
  it.stood = all ? 2 : 1;
  it.system.kill(it.replicas[0], messages::make_error(ec::protocol_violated, "replica:0: broken"));
  REQUIRE(it.asked.size() == 4);
  CHECK(it.asked.back().processes.front().source.tier
        == (all ? runtime::state_tier::estate : runtime::state_tier::start));
}

TEST_CASE("LEDGER-2: a repeated step with another state ends the run, and is named", "[actors]") {
  const bool same = GENERATE(true, false);
  supervised it(100, false, true);
  it.stood = 2;
  it.all_ready();
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::vote(r));
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, supervised::applied(r));
  REQUIRE(it.committed.size() == 1);
  // All ranks lost their states: the run starts again.
  it.system.kill(it.replicas[0], messages::make_error(ec::protocol_violated, "replica:0: broken"));
  REQUIRE(it.asked.size() == 4);
  const auto second = runtime::make_generation(0, 2);
  for (int r = 0; r < 2; ++r)
    it.system.tell(it.supervisor, messages::ready{second, r});
  for (int r = 0; r < 2; ++r) {
    auto vote = supervised::vote(r);
    vote.generation = second;
    it.system.tell(it.supervisor, vote);
  }
  for (int r = 0; r < 2; ++r) {
    auto applied = supervised::applied(r);
    applied.generation = second;
    if (!same)
      applied.state[0].own["w"].low ^= 1;
    it.system.tell(it.supervisor, applied);
  }
  CHECK(it.committed.size() == 1);  // reported once
  CHECK(it.end->has_come() == !same);
  if (!same)
    CHECK_THAT(it.end->text(), ContainsSubstring("LEDGER-2: step 1") && ContainsSubstring("in w"));
}

TEST_CASE("a supervisor without an agent refuses a job with several processes", "[actors]") {
  auto job = tests::tiny_job(1, 2);
  job.layout.processes = 2;
  tests::deterministic system;
  const auto prepared = tests::without_threads(job);
  tests::heard_by<messages::front_actor> front;
  const auto node = system.keep(system.home().spawn(
      [](messages::agent_actor::pointer) -> messages::agent_actor::behavior_type {
        return {[](const messages::start_process&) {}, [](const messages::shut_down&) {}};
      }));
  const auto supervisor
      = system.keep(system.home().spawn(actors::supervisor,
                                        caf::actor_cast<messages::node_actor>(node),
                                        prepared->description,
                                        std::shared_ptr<const actors::node_context>(prepared->node),
                                        system.listener(front),
                                        actors::succession{}));
  tests::ending end(supervisor);
  system.run();
  CHECK(end.is(ec::refused));
  CHECK_THAT(end.text(), ContainsSubstring("needs 2 processes besides this one"));
}
