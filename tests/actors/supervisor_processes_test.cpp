// A supervisor with ranks in two processes besides its own. The test plays agent and nodes.

#include "actors/node/hang_watch.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/supervised_processes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using messages::ec;
using tests::first_generation;
using tests::supervised_processes;

namespace {

/// Services that the newest replica of each process was told of.
std::vector<messages::hosting_process> newest_told(const supervised_processes& it) {
  std::vector<messages::hosting_process> out;
  for (const std::size_t p : {0, 1}) {
    const auto& all = it.nodes[p].replicas.back().processes;
    REQUIRE(all.size() == 1);
    CHECK(all.front().process == int(p));
    out.push_back(all.front());
  }
  return out;
}

}  // namespace

TEST_CASE("a supervisor starts processes, and spawns ranks where they belong", "[actors]") {
  supervised_processes it;
  REQUIRE(it.agent.of<messages::start_process>().size() == 2);
  it.come(0);
  CHECK(it.nodes[0].replicas.empty());
  it.come(1);
  for (const std::size_t p : {0, 1}) {
    const auto& at = it.nodes[p];
    REQUIRE(at.replicas.size() == 1);
    CHECK(at.replicas[0].replica == int(p));
    REQUIRE(at.replicas[0].processes.size() == 1);  // of its own ranks only
    CHECK(at.replicas[0].processes[0].process == int(p));
    CHECK(at.loaders == 1);
    REQUIRE(at.keepers.size() == 1);
    CHECK(at.keepers[0].process == int(1 - p));
    CHECK(at.checkpointers == 0);
  }
  CHECK(it.nodes[2].checkpointers == 1);
}

TEST_CASE("PROCESS-2: ranks are spawned when each process is connected with its neighbours",
          "[actors]") {
  supervised_processes it;
  it.play_connectors();
  it.connectors[1].waits = true;
  it.come(0);
  CHECK(it.connectors[0].told.empty());
  it.come(1);
  int calls = 0;
  for (const std::size_t p : {0, 1}) {
    REQUIRE(it.connectors[p].told.size() == 1);
    const auto& told = it.connectors[p].told[0];
    CHECK(told.generation == first_generation);
    REQUIRE(told.others.size() == 1);
    CHECK(told.others[0].who == messages::process_name{int(1 - p), 1});
    calls += told.others[0].port == 7 ? 1 : 0;
  }
  CHECK(calls == 1);
  CHECK(it.nodes[0].keepers.size() == 1);  // services come meanwhile
  CHECK(it.nodes[0].replicas.empty());
  it.system.tell(it.connectors[1].actor, messages::forget{});
  CHECK(it.nodes[0].replicas.size() == 1);
  CHECK(it.nodes[1].replicas.size() == 1);
}

TEST_CASE("PROCESS-2: a process that stays is told of new neighbours only", "[actors]") {
  supervised_processes it;
  it.play_connectors();
  it.begin();
  const auto& told = it.connectors[0].told;
  const auto wrong = [&](runtime::generation_id generation) {
    for (int r = 0; r < 2; ++r)
      it.system.tell(it.supervisor,
                     messages::vote{.generation = generation,
                                    .step = runtime::step_id(1),
                                    .replica = r,
                                    .losses = {{2, 1}},
                                    .gradients = {{.rank = r, .bits = {std::uint64_t(r), 0}}}});
  };
  wrong(first_generation);  // all ranks are spawned again; no process dies
  REQUIRE(told.size() == 2);
  CHECK(told[1].since == first_generation);
  CHECK(told[1].others.empty());
  CHECK(told[1].no_more.empty());
  const auto second = told[1].generation;
  it.system.tell(it.supervisor, messages::process_died{second, 1, 1, "killed by signal 9"});
  it.come(1, 2);
  REQUIRE(told.size() == 3);
  CHECK(told[2].since == second);
  REQUIRE(told[2].others.size() == 1);
  CHECK(told[2].others[0].who == messages::process_name{1, 2});
  REQUIRE(it.connectors[1].told.size() == 3);
  CHECK(value(it.connectors[1].told[2].since) == 0);  // it is new
  CHECK(it.connectors[1].told[2].others.size() == 1);
}

TEST_CASE("PROCESS-2: after a failed attempt to connect all neighbours are told again",
          "[actors]") {
  supervised_processes it;
  it.play_connectors();
  it.connectors[0].answer = {"no route to host", {1, 1}};
  it.come(0);
  it.come(1);
  REQUIRE(it.connectors[0].told.size() == 2);
  CHECK(value(it.connectors[0].told[1].since) == 0);
  CHECK(it.connectors[0].told[1].others.size() == 1);
}

TEST_CASE("a neighbour that cannot be reached ends the generation, and the next one connects again",
          "[actors]") {
  supervised_processes it;
  it.play_connectors();
  it.connectors[0].answer = {"no route to host", {1, 1}};
  it.come(0);
  it.come(1);
  CHECK(it.nodes[0].replicas.empty());
  REQUIRE(it.connectors[0].told.size() == 2);
  CHECK(it.connectors[0].told[1].generation == runtime::next(first_generation));
  CHECK(it.nodes[0].broken_with.at(0) == std::vector<int>{1});
  CHECK(it.nodes[1].broken_with.at(0) == std::vector<int>{0});
  // It happened again, so the process itself is replaced.
  CHECK(it.agent.of<messages::start_process>().size() > 2);
}

TEST_CASE("MEMBER-5: a run ends with both names when a neighbour stays unreachable", "[actors]") {
  supervised_processes it;
  it.play_connectors();
  auto& answer = it.connectors[0].answer;
  answer = {"no route to host", {1, 1}};
  it.come(0);
  it.come(1);
  const auto& asked = it.agent.of<messages::start_process>();
  std::array<std::uint32_t, 2> incarnations = {1, 1};
  // Both are replaced in turn, and the new ones cannot connect either.
  while (!it.end->has_come() && asked.size() < 8) {
    const auto process = std::size_t(asked.back().process);
    const auto before = asked.size();
    ++incarnations[process];
    answer.other.incarnation = incarnations[1];
    it.come(int(process), incarnations[process]);
    REQUIRE((it.end->has_come() || asked.size() > before));
  }
  CHECK(incarnations == std::array<std::uint32_t, 2>{2, 2});
  CHECK(it.nodes[0].replicas.empty());
  CHECK(it.nodes[1].replicas.empty());
  CHECK_THAT(it.end->text(),
             ContainsSubstring("between process 0 (host 'here') and process 1 (host 'here') broke: "
                               "no route to host"));
}

TEST_CASE("a step is decided after the state before it is kept in other processes", "[actors]") {
  supervised_processes it;
  it.come(0);
  it.come(1);
  it.run();
  it.vote(1);
  CHECK(it.decisions() == 0);
  it.tell_kept(0, 0);
  it.keep(0, runtime::next(first_generation));  // of another generation
  it.system.tell(it.supervisor,
                 messages::kept{first_generation, runtime::step_id(0), 2});  // unknown process
  CHECK(it.decisions() == 0);
  it.tell_kept(1, 0);
  CHECK(it.decisions() == 1);
}

TEST_CASE(
    "LOCAL-4: a step is written to local disks once all keepers have it and finished earlier ones",
    "[actors]") {
  supervised_processes it({}, 1);
  it.begin();
  const auto told = [&](std::size_t keeper) {
    std::vector<std::uint64_t> out;
    for (const auto& x : it.keepers[keeper].of<messages::store_kept>())
      out.push_back(value(x.step));
    return out;
  };
  const auto common = [&](std::size_t keeper) {
    return value(it.keepers[keeper].of<messages::store_kept>().back().common);
  };
  /// `storing`: 0 for none.
  const auto says = [&](int process,
                        std::uint64_t step,
                        std::uint64_t last,
                        std::uint64_t storing,
                        std::vector<std::uint64_t> stored) {
    it.tell_kept(process,
                 step,
                 first_generation,
                 {.told_to_store = runtime::step_id(last),
                  .storing = runtime::step_id(storing),
                  .stored = std::move(stored)});
  };
  constexpr std::uint64_t one = 1, two = 2;
  using steps = std::vector<std::uint64_t>;
  it.commit_first();
  says(0, 1, 0, 0, {});
  CHECK(told(0).empty());
  says(1, 1, 0, 0, {});
  CHECK(told(0) == steps{1});
  CHECK(told(1) == steps{1});
  CHECK(common(0) == 0);
  it.vote(2);
  says(1, 2, 1, 0, {one});
  it.apply(2);
  SECTION("one is still writing") {
    says(0, 2, 1, 1, {});
    CHECK(told(0) == steps{1});
    says(0, 2, 1, 0, {one});  // while the step is the newest
    CHECK(common(1) == 1);
  }
  SECTION("one has not received the previous order") {
    says(0, 2, 0, 0, {});
    CHECK(told(0) == steps{1});
    says(0, 2, 1, 0, {one});
    CHECK(common(1) == 1);
  }
  SECTION("one has written nothing") {
    says(0, 2, 1, 0, {});
    CHECK(common(1) == 0);
  }
  SECTION("one still writes the same step from before the run went back") {
    says(0, 2, 1, 2, {one});
    CHECK(common(0) == 1);
  }
  CHECK(told(0) == steps{1, 2});
  CHECK(told(1) == steps{1, 2});
  it.vote(3);
  says(0, 3, 2, 0, {one});  // its disk failed
  it.apply(3);
  says(1, 3, 2, 0, {one, two});
  CHECK(told(1) == steps{1, 2, 3});
  CHECK(common(0) == 1);
  CHECK(common(1) == 1);
}

TEST_CASE("LOCAL-4: a step is written by all keepers or by none", "[actors]") {
  supervised_processes it({}, 1);
  it.begin();
  it.commit_first();
  it.tell_kept(0, 1);
  const auto first = std::size_t(it.kept_of[0] == 0 ? 0 : 1), other = 1 - first;
  it.system.kill(it.keeper_handles[first],
                 messages::make_error(messages::ec::protocol_violated, "keeper: it broke"));
  REQUIRE(it.keepers.size() == 3);
  it.tell_kept(1, 1);
  CHECK(it.keepers[other].of<messages::store_kept>().empty());
  it.tell_kept(0, 1);
  CHECK(it.keepers[other].of<messages::store_kept>().size() == 1);
  CHECK(it.keepers[2].of<messages::store_kept>().size() == 1);
}

TEST_CASE("after the death of a process its ranks restart from its keeper's copy", "[actors]") {
  supervised_processes it;
  it.begin();
  it.commit_first();
  it.keep(1);
  it.nodes[0].own = {0, 1};
  it.nodes[0].kept = {0, 1};
  it.system.tell(it.supervisor,
                 messages::process_died{first_generation, 1, 1, "killed by signal 9"});
  CHECK(it.nodes[0].ended == std::vector{first_generation});
  CHECK(it.nodes[1].ended.empty());
  REQUIRE(it.agent.of<messages::start_process>().size() == 3);
  CHECK(it.agent.of<messages::start_process>().back().process == 1);
  // A second report of this death, and one of the old incarnation after its successor joined.
  it.system.tell(it.supervisor,
                 messages::process_died{first_generation, 1, 1, "its connection is gone"});
  it.come(1, 2);
  it.system.tell(it.supervisor,
                 messages::process_died{first_generation, 1, 1, "its connection is gone"});
  CHECK(it.agent.of<messages::start_process>().size() == 3);
  REQUIRE(it.nodes[1].replicas.size() == 2);
  const auto told = newest_told(it);
  CHECK(told[0].source == runtime::state_source{runtime::state_tier::estate, runtime::step_id(1)});
  CHECK(told[1].source
        == runtime::state_source{runtime::state_tier::keeper, runtime::step_id(1), 0});
  CHECK(told[1].holder == told[1].keeper);
  CHECK_FALSE(told[0].holder);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a process that can move does so when its states are kept", "[actors]") {
  supervised_processes it;
  it.begin();
  it.commit_first();
  it.system.tell(it.supervisor,
                 messages::process_may_move{first_generation, 1, 7, "of a life before"});
  it.system.tell(it.supervisor, messages::process_may_move{first_generation, 9, 1, "nobody"});
  it.system.tell(it.supervisor, messages::process_may_move{first_generation, 1, 1, "host b"});
  CHECK(it.nodes[0].ended.empty());  // its keeper does not have all of its next state
  it.nodes[0].own = {0, 1};
  it.nodes[0].kept = {0, 1};
  it.keep(1);
  CHECK(it.nodes[0].ended == std::vector{first_generation});
  REQUIRE(it.agent.of<messages::start_process>().size() == 3);
  CHECK(it.agent.of<messages::start_process>().back().process == 1);
  it.come(1, 2);
  REQUIRE(it.nodes[1].replicas.size() == 2);
  const auto told = newest_told(it);
  CHECK(told[1].source
        == runtime::state_source{runtime::state_tier::keeper, runtime::step_id(1), 0});
  it.run(runtime::next(first_generation));
  it.keep(1, runtime::next(first_generation));
  CHECK(it.agent.of<messages::start_process>().size() == 3);  // once
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a process stays if the host for its move is lost again", "[actors]") {
  supervised_processes it;
  it.come(0);
  it.come(1);
  it.run();
  it.keep(0);
  it.vote(1);
  it.apply(1);
  it.system.tell(it.supervisor, messages::process_may_move{first_generation, 1, 1, "host b"});
  it.system.tell(it.supervisor, messages::process_may_move{first_generation, 1, 1, ""});
  it.nodes[0].own = {0, 1};
  it.nodes[0].kept = {0, 1};
  it.keep(1);
  CHECK(it.nodes[0].ended.empty());
  CHECK(it.agent.of<messages::start_process>().size() == 2);
}

TEST_CASE("MEMBER-7: a living process is exchanged after its connection broke twice", "[actors]") {
  supervised_processes it;
  it.come(0);
  it.come(1);
  for (auto& node : it.nodes) {
    node.own = {0, 0};
    node.kept = {0};
  }
  auto generation = first_generation;
  const auto breaks = [&](int from, const char* to) {
    it.run(generation);
    caf::send_as(it.nodes[std::size_t(from)].actor,
                 it.supervisor,
                 messages::taken_for_dead{generation, to, "Connection reset"});
    it.system.run();
    generation = runtime::next(generation);
  };
  breaks(0, "connection:1.1");
  CHECK(it.agent.of<messages::start_process>().size() == 2);  // both go on
  CHECK(it.nodes[0].ended.size() == 1);
  CHECK(it.nodes[0].broken_with == std::vector<std::vector<int>>{{1}});  // LINK-1
  CHECK(it.nodes[1].broken_with == std::vector<std::vector<int>>{{0}});
  breaks(1, "connection:0.1");
  REQUIRE(it.agent.of<messages::start_process>().size() == 3);
  CHECK(it.agent.of<messages::start_process>().back().process == 1);
  CHECK(it.agent.of<messages::start_process>().back().elsewhere);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("LINK-1: a control connection that breaks ends the generation at both ends", "[actors]") {
  supervised_processes it;
  it.begin();
  caf::send_as(it.nodes[0].actor,
               it.supervisor,
               messages::taken_for_dead{first_generation, "control:1.1", "it was reset"});
  it.system.run();
  CHECK(it.nodes[0].broken_with == std::vector<std::vector<int>>{{1}});
  CHECK(it.nodes[1].broken_with == std::vector<std::vector<int>>{{0}});
  CHECK(it.agent.of<messages::start_process>().size() == 2);  // both live
  it.run(runtime::next(first_generation));
  REQUIRE_FALSE(it.happened.empty());
  CHECK(it.happened.back().who == "connection:0-1");
  CHECK(it.happened.back().why.find("the control connection between process 0") == 0);
}

TEST_CASE("HANG-5: the generation starts again when no process makes progress", "[actors]") {
  supervised_processes it;
  it.begin();
  const auto all_tell = [&](std::size_t but) {
    for (std::size_t p = 0; p < it.nodes.size(); ++p)
      if (p != but)
        caf::send_as(
            it.nodes[p].actor,
            it.supervisor,
            messages::taken_for_dead{first_generation, actors::everything, "\n  stage:0.0"});
    it.system.run();
  };
  constexpr std::size_t none = 3;
  const auto half
      = std::chrono::milliseconds(std::int64_t(it.prepared->opened().job.recovery.suspicion * 500));
  it.vote(1);
  all_tell(none);
  CHECK(it.nodes[0].ended.empty());  // it may be about to be answered
  SECTION("once all have told so for half the suspicion") {
    it.system.advance(half);
    all_tell(none);
    CHECK(it.nodes[0].ended == std::vector{first_generation});
    CHECK(it.agent.of<messages::start_process>().size() == 2);
    it.run(runtime::next(first_generation));
    REQUIRE_FALSE(it.happened.empty());
    CHECK(it.happened.back().who == "the run");
  }
  SECTION("not while one process moves") {
    for (int n = 0; n < 4; ++n) {
      it.system.advance(half);
      all_tell(1);
    }
    CHECK(it.nodes[0].ended.empty());
  }
  SECTION("not after an answer has come") {
    it.apply(1);
    it.system.advance(half);
    all_tell(none);
    CHECK(it.nodes[0].ended.empty());
  }
}

TEST_CASE("processes with persistently different replicas are exchanged one after the other",
          "[actors]") {
  supervised_processes it;
  it.come(0);
  it.come(1);
  auto generation = first_generation;
  const auto differ = [&] {
    it.run(generation);
    it.keep(0, generation);
    for (int r = 0; r < 2; ++r)
      it.system.tell(it.supervisor,
                     messages::vote{.generation = generation,
                                    .step = runtime::step_id(1),
                                    .replica = r,
                                    .losses = {{2, 1}},
                                    .gradients = {{.rank = r, .bits = {std::uint64_t(r), 7}}}});
    generation = runtime::next(generation);
  };
  for (auto& x : it.nodes)
    x.own = {0};
  differ();  // both ranks are rebuilt in place
  CHECK(it.agent.of<messages::start_process>().size() == 2);
  it.nodes[0].kept = it.nodes[1].kept = {0};
  differ();
  REQUIRE(it.agent.of<messages::start_process>().size() == 3);
  CHECK(it.agent.of<messages::start_process>().back().process == 0);
  it.come(0, 2);
  differ();
  REQUIRE(it.agent.of<messages::start_process>().size() == 4);
  CHECK(it.agent.of<messages::start_process>().back().process == 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a process and its keeper that are both guilty are exchanged one after the other",
          "[actors]") {
  supervised_processes it;
  it.come(0);
  it.come(1);
  auto generation = first_generation;
  const auto vote
      = [&](const std::array<std::uint64_t, 2>& first, const std::array<std::uint64_t, 2>& second) {
          it.run(generation);
          it.keep(0, generation);
          messages::vote x{.generation = generation,
                           .step = runtime::step_id(1),
                           .replica = 0,
                           .losses = {{2, 1}},
                           .gradients = {{.rank = 0}}};
          for (std::uint32_t m = 0; m < 2; ++m) {
            const auto& had = m == 0 ? first : second;
            x.checked.push_back({.replica = 0,
                                 .by = 1,
                                 .microbatch = runtime::microbatch_id(m),
                                 .output = {had[0], 1},
                                 .output_again = {had[1], 1}});
          }
          it.system.tell(it.supervisor, x);
          x.checked.clear();
          x.replica = x.gradients.front().rank = 1;
          it.system.tell(it.supervisor, x);
        };
  const auto& asked = it.agent.of<messages::start_process>();
  for (auto& x : it.nodes)
    x.own = x.kept = {0};
  vote({1, 2}, {1, 2});
  CHECK(asked.size() == 2);
  generation = runtime::next(generation);
  vote({1, 3}, {3, 2});  // of each pair one has another result
  REQUIRE(asked.size() == 3);
  CHECK(asked.back().process == 0);
  CHECK(asked.back().elsewhere);
  it.come(0, 2);
  generation = runtime::next(generation);
  vote({1, 1}, {1, 1});
  it.apply(1, generation);
  CHECK(asked.size() == 3);
  for (auto& x : it.nodes)
    x.own = x.kept = {0, 1};
  it.keep(1, generation);
  REQUIRE(asked.size() == 4);
  CHECK(asked.back().process == 1);
  CHECK(asked.back().elsewhere);
  it.come(1, 2);
  CHECK_FALSE(it.end->has_come());
  const auto replaced = std::find_if(
      it.happened.begin(), it.happened.end(), [](const auto& x) { return x.who == "process:0"; });
  REQUIRE(replaced != it.happened.end());
  CHECK(replaced->kind == "restart");
  CHECK(replaced->verdict == "wrong bits");
}

TEST_CASE("if a process and its keeper die together the run continues from their local disks",
          "[actors]") {
  const bool agrees = GENERATE(true, false);
  supervised_processes it({}, 1);
  it.begin();
  it.commit_first();
  it.keep(1);
  CHECK(it.nodes[0].looks == 0);
  for (const int p : {0, 1})
    it.system.tell(it.supervisor, messages::process_died{first_generation, p, 1, "killed"});
  // Each is the other one's keeper. Replicas have the whole state.
  for (const int p : {0, 1})
    it.nodes[std::size_t(1 - p)].stored
        = {{p, runtime::step_id(1), {{p, {{"w", {agrees ? 1U : 2U, 7}}}}}}};
  it.come(0, 2);
  it.come(1, 2);
  CHECK(it.nodes[0].looks == 1);
  CHECK(it.nodes[1].looks == 1);
  REQUIRE(it.nodes[1].replicas.size() == 2);
  const auto told = newest_told(it);
  for (const int p : {0, 1}) {
    const auto& at = told[std::size_t(p)];
    CHECK(at.source.tier == (agrees ? runtime::state_tier::local : runtime::state_tier::start));
    CHECK(at.source.step == runtime::step_id(agrees ? 1 : 0));
    CHECK(at.source.keeper == (agrees ? 1 - p : 0));
    CHECK(bool(at.holder) == agrees);
  }
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("COLD-2: a restarted run searches local disks once its processes are ready", "[actors]") {
  const bool is_there = GENERATE(true, false);
  supervised_processes it({}, 1, true);
  // The hosts are swapped: local states are not those of the process's keeper.
  for (const int p : {0, 1})
    if (is_there || p == 0)
      it.nodes[std::size_t(p)].stored = {{p, runtime::step_id(1), {{p, {{"w", {1, 7}}}}}}};
  it.come(0);
  CHECK(it.nodes[0].looks == 0);
  it.come(1);
  CHECK(it.nodes[0].looks == 1);
  CHECK(it.nodes[1].looks == 1);
  REQUIRE(it.nodes[1].replicas.size() == 1);
  const auto told = newest_told(it);
  for (const int p : {0, 1}) {
    const auto& at = told[std::size_t(p)];
    CHECK(at.source.tier == (is_there ? runtime::state_tier::local : runtime::state_tier::start));
    CHECK(at.source.step == runtime::step_id(is_there ? 1 : 0));
    if (!is_there)
      continue;
    CHECK(at.source.keeper == p);
    // The process on that host keeps for the other one.
    CHECK(at.holder == told[std::size_t(1 - p)].keeper);
  }
  const auto generation = it.nodes[1].replicas.back().generation;
  it.run(generation);
  REQUIRE(it.happened.size() == 1);
  // The previous supervisor died before it wrote the job.
  CHECK(it.prepared->node->ledger->says_job());
  CHECK(it.happened[0].who == "the run before");
  CHECK(it.happened[0].why == "all died");
  CHECK(it.happened[0].from == (is_there ? "local disk" : "start"));
  CHECK(it.happened[0].iteration == 2);
  CHECK(it.happened[0].resumed == (is_there ? 1 : 0));
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a request to end before all processes are ready ends a restarted run at once",
          "[actors]") {
  supervised_processes it({}, 1, true);
  it.come(0);
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  CHECK(it.end->has_come());
  CHECK(it.nodes[0].shut_down);
}

TEST_CASE("each process has a shard writer, and saving waits while one is missing", "[actors]") {
  const tests::scratch_folder folder;
  supervised_processes it(folder.path());
  it.come(0);
  it.come(1);
  auto& told = it.saver.of<messages::use_shard_writer>();
  for (const std::size_t p : {0, 1}) {
    REQUIRE(it.nodes[p].writers.size() == 1);
    CHECK(it.nodes[p].writers[0].process == int(p));
    CHECK(it.nodes[p].writers[0].has_folder);
  }
  CHECK(it.nodes[2].writers.empty());
  REQUIRE(told.size() == 2);
  CHECK(told[0].writer == it.nodes[0].writer);
  CHECK(told[1].writer == it.nodes[1].writer);
  it.run();
  it.keep(0);
  const auto first = it.nodes[1].writer;
  it.system.kill(first, messages::make_error(ec::protocol_violated, "shard_writer: it broke"));
  REQUIRE(it.nodes[1].writers.size() == 2);
  REQUIRE(told.size() == 4);
  CHECK(told[2].process == 1);
  CHECK_FALSE(told[2].writer);
  CHECK(told[3].process == 1);
  CHECK(told[3].writer == it.nodes[1].writer);
  CHECK(it.nodes[0].ended.empty());  // no step runs again
  it.commit_first();
  CHECK(it.saver.of<messages::save>().size() == 1);
  it.keep(1);
  it.vote(2);  // it dies while it writes: the save is abandoned before the loss is reported
  it.system.tell(it.supervisor,
                 messages::process_died{first_generation, 1, 1, "killed by signal 9"});
  CHECK(it.saver.of<messages::abandon>().size() == 1);
  REQUIRE(told.size() == 5);
  CHECK_FALSE(told[4].writer);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("SHARDS-3: a failed save is reported to every stage at once", "[actors]") {
  const tests::scratch_folder folder;
  supervised_processes it(folder.path());
  it.begin();
  it.commit_first();
  REQUIRE(it.saver.of<messages::save>().size() == 1);
  const auto attempt = it.saver.of<messages::save>()[0].attempt;
  const auto fail = [&](std::uint64_t of) {
    it.system.tell(it.supervisor,
                   messages::save_failed{
                       first_generation, runtime::step_id(1), "No space left on device", of});
  };
  fail(attempt + 1);
  for (auto& replica : it.heard)
    CHECK(replica.of<messages::drop_snapshot>().empty());
  fail(attempt);
  for (auto& replica : it.heard) {
    REQUIRE(replica.of<messages::drop_snapshot>().size() == 1);
    CHECK(replica.of<messages::drop_snapshot>()[0]
          == messages::drop_snapshot{first_generation, runtime::step_id(1), attempt});
  }
}
