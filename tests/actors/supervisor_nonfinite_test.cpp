// A supervisor with ranks in two processes: steps that are not finite, and slow workers.

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
                                 .losses = {{r == 0 ? first : second, 1, 0}},
                                 .gradients = {{.rank = r}},
                                 .times = {{.computing = r == 1 && is_slow ? 0.9 : 0.3,
                                            .awaiting_batches = awaiting_batches}}});
  }
  void next_generation(std::uint64_t kept = 0) {
    now = runtime::next(now);
    run(now);
    keep(kept, now);
  }
  /// A step with finite losses, up to the reports of keepers.
  void pass(std::uint64_t step) {
    lose_with(2, 2, step);
    apply(step, now);
    keep(step, now);
  }
  /// A skipped step: the state stays that of the step before.
  void leave_out(std::uint64_t step) {
    for (int r = 0; r < 2; ++r)
      system.tell(supervisor,
                  messages::applied{.generation = now,
                                    .step = runtime::step_id(step),
                                    .replica = r,
                                    .state = {{.rank = r, .own = {{"w", {step - 1, 7}}}}}});
  }
  /// Loses all states in memory; there is no checkpoint, so the run starts again.
  void lose_all(std::uint32_t incarnation) {
    for (const int p : {0, 1})
      system.tell(supervisor, messages::process_died{now, p, incarnation, "killed"});
    for (const int p : {0, 1})
      come(p, incarnation + 1);
    next_generation();
  }
  const messages::decision& decided() {
    REQUIRE(decisions() > 0);
    return heard[0].of<messages::decision>().back();
  }

  runtime::generation_id now = first_generation;
  bool is_slow = false;         ///< the second replica
  double awaiting_batches = 0;  ///< seconds, of both replicas
};

void skip_some(runtime::training_job& job) {
  job.training.skippable_in_a_row = 3;
}

}  // namespace

TEST_CASE("VERIFY-3: a step that is finite in its second run is accepted", "[actors]") {
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

TEST_CASE("a replica without a loss does not shift the numbers of the replicas after it",
          "[actors]") {
  voted_run it([](auto&) {});
  messages::vote x{.generation = it.now, .step = runtime::step_id(1), .gradients = {{.rank = 0}}};
  it.system.tell(it.supervisor, x);
  x.replica = x.gradients.front().rank = 1;
  x.losses = {{undefined_loss, 1, 0}};
  it.system.tell(it.supervisor, x);
  it.next_generation();
  REQUIRE(it.happened.size() == 1);
  CHECK_THAT(it.happened[0].why, ContainsSubstring("the loss of replica 1 is nan"));
}

TEST_CASE("VERIFY-3: a step that is not finite in both runs is skipped or ends the run",
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

TEST_CASE("VERIFY-3: a place with other values that are not finite in the second run is replaced",
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

TEST_CASE("a skipped step is not retried during a replay", "[actors]") {
  voted_run it(skip_some);
  it.lose_with(2, undefined_loss);
  it.next_generation();
  it.lose_with(2, undefined_loss);
  it.apply(1, it.now);  // and is not kept yet
  it.system.tell(it.supervisor, messages::process_died{it.now, 1, 1, "killed"});
  it.come(1, 2);
  it.next_generation();
  const auto before = it.decisions();
  it.lose_with(2, undefined_loss);
  CHECK(it.decisions() == before + 1);
  CHECK(it.decided().skip);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("VERIFY-3: a step that dies between its verdict and its commit is not judged again",
          "[actors]") {
  voted_run it(skip_some);
  it.lose_with(2, undefined_loss);
  it.next_generation();
  it.lose_with(2, undefined_loss);
  REQUIRE(it.happened.size() == 2);
  it.system.tell(it.supervisor, messages::process_died{it.now, 1, 1, "killed"});
  it.come(1, 2);
  it.next_generation();
  const auto ended = it.nodes[0].ended.size();
  const auto before = it.decisions();
  it.lose_with(2, undefined_loss);
  CHECK(it.decisions() == before + 1);
  CHECK(it.decided().skip);
  CHECK(it.nodes[0].ended.size() == ended);
  REQUIRE(it.happened.size() == 3);
  CHECK(it.happened[2].kind == "restart");
}

TEST_CASE("in a replay of any length skipped steps stay skipped, and finite ones run once more",
          "[actors]") {
  constexpr std::uint64_t newest = 8;  // the ledger has the positions of three of them
  voted_run it([](auto& job) {
    skip_some(job);
    job.train_iterations = newest + 2;
  });
  const std::uint64_t left_out = GENERATE(1, 2);
  for (std::uint64_t n = 1; n <= newest; ++n) {
    for (auto& x : it.nodes)
      x.own = x.kept = {n - 1, n};
    if (n != left_out) {
      it.pass(n);
      continue;
    }
    it.lose_with(2, undefined_loss, n);
    it.next_generation(n - 1);
    it.lose_with(2, undefined_loss, n);
    it.leave_out(n);
    it.keep(n, it.now);
  }
  REQUIRE(it.prepared->node->ledger->newest() == newest);
  it.lose_all(1);
  const auto ended = it.nodes[0].ended.size();
  for (std::uint64_t n = 1; n <= left_out; ++n) {
    if (n != left_out) {
      it.pass(n);
      continue;
    }
    it.lose_with(2, undefined_loss, n);
    CHECK(it.decided().skip);
    it.leave_out(n);
    it.keep(n, it.now);
  }
  CHECK(it.nodes[0].ended.size() == ended);

  const auto wrong = left_out + 1;
  for (auto& x : it.nodes)
    x.own = x.kept = {left_out, wrong};
  const auto happened = it.happened.size();
  it.lose_with(2, undefined_loss, wrong);
  CHECK(it.nodes[0].ended.size() == ended + 1);
  CHECK_FALSE(it.end->has_come());
  it.next_generation(left_out);
  REQUIRE(it.happened.size() == happened + 1);
  CHECK(it.happened.back().kind == "rerun");
  CHECK(it.happened.back().resumed == left_out);
  it.lose_with(2, 2, wrong);
  CHECK_FALSE(it.decided().skip);
  REQUIRE(it.happened.size() == happened + 2);
  CHECK(it.happened.back().verdict == "transient");
  for (auto n = wrong; n <= newest; ++n) {
    if (n > wrong)
      it.lose_with(2, 2, n);
    it.apply(n, it.now);
    it.keep(n, it.now);
  }
  CHECK(it.nodes[0].ended.size() == ended + 1);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("MEMBER-3: a process dies in a long replay before its newest step is kept", "[actors]") {
  voted_run it([](auto& job) { job.train_iterations = 10; });
  for (std::uint64_t n = 1; n <= 8; ++n)
    it.pass(n);
  it.lose_all(1);
  it.pass(1);
  it.lose_with(2, 2, 2);
  it.apply(2, it.now);
  for (auto& x : it.nodes)
    x.own = x.kept = {1, 2};
  it.system.tell(it.supervisor, messages::process_died{it.now, 1, 2, "killed"});
  it.come(1, 3);
  CHECK_FALSE(it.end->has_come());
  it.next_generation(1);
  CHECK(it.happened.back().kind == "restart");
  CHECK(it.happened.back().resumed == 1);
  it.pass(2);
  CHECK_FALSE(it.end->has_come());
}

TEST_CASE("a place with two transient faults is replaced", "[actors]") {
  voted_run it([](auto&) {});
  const auto& asked = it.agent.of<messages::start_process>();
  for (const std::uint64_t step : {1, 2}) {
    for (auto& x : it.nodes)
      x.own = x.kept = {step - 1, step};
    it.lose_with(2, undefined_loss, step);
    it.next_generation(step - 1);
    it.pass(step);
    CHECK(asked.size() == 1 + step);
  }
  CHECK(asked.back().process == 1);
  CHECK(asked.back().elsewhere);
  const auto& told = it.happened.back();
  CHECK(told.kind == "wrong bits");
  CHECK(told.verdict == "transient");
  CHECK_THAT(told.why, ContainsSubstring("as in an earlier fault here"));
}

TEST_CASE("a run that is to end repeats no step", "[actors]") {
  voted_run it(skip_some);
  it.system.tell(it.supervisor, messages::drain{"SIGINT"});
  it.lose_with(2, undefined_loss);
  CHECK(it.decided().skip);
  CHECK(it.nodes[0].ended.empty());
  CHECK(it.happened.empty());
}

TEST_CASE("an overflow that lowers the loss scale causes no second run", "[actors]") {
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

TEST_CASE("STRAGGLER-1: the process and host of a slow worker are reported", "[actors]") {
  voted_run it([](auto& job) { job.watch.straggler_ratio = 1.5; });
  it.is_slow = true;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    it.lose_with(2, 2, step);
    CHECK(it.happened.size() == (step == 3 ? 1 : 0));
    it.apply(step);
    it.keep(step);
  }
  REQUIRE(it.happened.size() == 1);
  CHECK(it.happened[0].kind == "straggler");
  CHECK(it.happened[0].who == "stage:1.0");
  CHECK_THAT(it.happened[0].why, StartsWith("stage:1.0 (process 1 on host 'here') computed for"));
}

TEST_CASE("the reason of several slow workers names the slowest, and says that the others are slow",
          "[actors]") {
  voted_run it([](auto& job) { job.watch.straggler_ratio = 1.5; });
  it.awaiting_batches = 0.6;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    it.lose_with(2, 2, step);
    it.apply(step);
    it.keep(step);
  }
  REQUIRE(it.happened.size() == 1);
  CHECK(it.happened[0].who == "stage:0.0, stage:1.0");
  CHECK(it.happened[0].verdict == "input");
  CHECK(it.happened[0].why
        == "stage:0.0 (process 0 on host 'here') waited for batches for 0.600 s of step 3, where "
           "0.150 s are usual; also slow: stage:1.0 (process 1 on host 'here')");
}

TEST_CASE("STRAGGLER-1: a discarded run of a step does not count", "[actors]") {
  voted_run it([](auto& job) { job.watch.straggler_ratio = 1.5; });
  it.is_slow = true;
  it.lose_with(2, undefined_loss);
  it.next_generation();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (auto& x : it.nodes)
      x.own = x.kept = {step - 1, step};
    it.lose_with(2, 2, step);
    CHECK(it.happened.size() == (step == 3 ? 3 : 2));
    it.apply(step, it.now);
    it.keep(step, it.now);
  }
  CHECK(it.happened.back().kind == "straggler");
}
