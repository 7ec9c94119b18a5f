// A supervisor whose ranks stand in two processes: of steps that are not finite, and who is slow.

#include "tests/support/supervised_processes.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using tests::first_generation;

namespace {

constexpr double undefined_loss = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite_loss = std::numeric_limits<double>::infinity();

struct voted_run : tests::supervised_processes {
  explicit voted_run(const std::function<void(runtime::training_job&)>& change)
      : supervised_processes({}, 0, false, change) {
    begin();
    for (auto& x : nodes)
      x.own = x.kept = {0};
  }

  void lose_with(double first, double second, std::uint64_t step = 1) {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor,
                  messages::vote{.generation = now,
                                 .step = runtime::step_id(step),
                                 .replica = r,
                                 .losses = {{r == 0 ? first : second, 1, 0}}});
  }
  void next_generation() {
    now = runtime::next(now);
    run(now);
    keep(0, now);
  }
  const messages::decision& decided() {
    REQUIRE(decisions() > 0);
    return heard[0].of<messages::decision>().back();
  }

  runtime::generation_id now = first_generation;
};

void skip_some(runtime::training_job& job) {
  job.training.skippable_in_a_row = 3;
}

}  // namespace

TEST_CASE("VERIFY-3: a step that is finite when it runs again is taken as it is", "[actors]") {
  voted_run it([](auto&) {});
  it.lose_with(2, undefined_loss);
  CHECK(it.decisions() == 0);
  CHECK(it.nodes[0].ended.size() == 1);
  it.next_generation();
  REQUIRE(it.happened.size() == 1);
  CHECK(it.happened[0].kind == "rerun");
  CHECK(it.happened[0].who == "step 1");
  CHECK(it.happened[0].resumed == 0);
  CHECK_THAT(it.happened[0].why, ContainsSubstring("the loss of replica 1 is nan"));
  it.lose_with(2, 2);
  REQUIRE(it.happened.size() == 2);
  CHECK(it.happened[1].kind == "wrong bits");
  CHECK(it.happened[1].verdict == "transient");
  CHECK(it.happened[1].who == "stage:1.0");
  CHECK_FALSE(it.decided().skip);
  CHECK(it.prepared->node->ledger->restarts().empty());
}

TEST_CASE("VERIFY-3: a step that is as little finite when it runs again is left out or the end",
          "[actors]") {
  const bool skips = GENERATE(true, false);
  voted_run it([skips](auto& job) { job.training.skippable_in_a_row = skips ? 3 : 0; });
  it.lose_with(2, undefined_loss);
  it.next_generation();
  it.lose_with(2, undefined_loss);
  CHECK(it.nodes[0].ended.size() == 1);  // once
  REQUIRE(it.happened.size() == 2);
  CHECK(it.happened[1].kind == "not finite");
  CHECK(it.happened[1].verdict == "reproducible");
  CHECK(it.happened[1].who == "stage:1.0");
  if (skips) {
    CHECK(it.decided().skip);
    return;
  }
  CHECK(it.decisions() == 0);
  CHECK_THAT(it.end->text(), ContainsSubstring("iteration 1: the loss of replica 1 is nan"));
}

TEST_CASE("VERIFY-3: a place that is not finite otherwise when the step runs again is replaced",
          "[actors]") {
  voted_run it(skip_some);
  const auto& asked = it.agent.of<messages::start_process>();
  it.lose_with(2, undefined_loss);
  it.next_generation();
  it.lose_with(2, infinite_loss);
  REQUIRE(it.happened.size() == 2);
  CHECK(it.happened[1].kind == "wrong bits");
  CHECK(it.happened[1].verdict == "persistent");
  CHECK(it.happened[1].who == "stage:1.0");
  CHECK(it.decided().skip);
  CHECK(asked.size() == 2);
  it.apply(1, it.now);
  it.keep(1, it.now);
  REQUIRE(asked.size() == 3);
  CHECK(asked.back().process == 1);
  CHECK(asked.back().elsewhere);
}

TEST_CASE("a step that was left out is not tried again when it is replayed", "[actors]") {
  voted_run it(skip_some);
  it.lose_with(2, undefined_loss);
  it.next_generation();
  it.lose_with(2, undefined_loss);
  it.apply(1, it.now);  // and is kept nowhere else yet
  it.system.tell(it.supervisor, messages::process_died{it.now, 1, 1, "killed"});
  it.come(1, 2);
  it.next_generation();
  const auto before = it.decisions();
  it.lose_with(2, undefined_loss);
  CHECK(it.decisions() == before + 1);
  CHECK(it.decided().skip);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("an overflow that lowers the loss scale costs no second run", "[actors]") {
  voted_run it([](auto& job) { job.training.precision = runtime::dtype::f16; });
  it.lose_with(2, infinite_loss);
  CHECK(it.decided().skip);
  CHECK(it.nodes[0].ended.empty());
  CHECK(it.happened.empty());
}

TEST_CASE("without recovery a step that is not finite is judged at once", "[actors]") {
  voted_run it([](auto& job) {
    skip_some(job);
    job.recovery.on = false;
  });
  it.lose_with(2, undefined_loss);
  CHECK(it.decided().skip);
  CHECK(it.nodes[0].ended.empty());
}

TEST_CASE("STRAGGLER-1: of several processes that of a slow worker is told with its host",
          "[actors]") {
  voted_run it([](auto& job) { job.watch.straggler_ratio = 1.5; });
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (int r = 0; r < 2; ++r)
      it.system.tell(it.supervisor,
                     messages::vote{.generation = it.now,
                                    .step = runtime::step_id(step),
                                    .replica = r,
                                    .losses = {{2, 1, 0}},
                                    .times = {{.computing = r == 1 ? 0.9 : 0.3}}});
    CHECK(it.happened.size() == (step == 3 ? 1 : 0));
    it.apply(step);
    it.keep(step);
  }
  REQUIRE(it.happened.size() == 1);
  CHECK(it.happened[0].kind == "straggler");
  CHECK(it.happened[0].who == "stage:1.0");
  CHECK_THAT(it.happened[0].why, StartsWith("stage:1.0 (process 1 on host 'here') computed for"));
}
