// VERIFY-3: with recovery a step that is not finite runs once more before the verdict.

#include "tests/support/recovered_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using tests::arrangement;

namespace {

arrangement of_replicas(int replicas) {
  return {"2 stages, " + std::to_string(replicas),
          tests::watched_job(tests::tiny_job(2, replicas))};
}

}  // namespace

TEST_CASE("VERIFY-3: a transient NaN leaves no trace in the weights", "[scenario][recovery]") {
  const auto [replicas, planted, who]
      = GENERATE(table<int, std::string, std::string>({{1, "nan-once:0.1", "stage:0.1"},
                                                       {2, "nan-once:1.0", "stage:*.0"},
                                                       {2, "nan-once:0.1", "stage:*.1"}}));
  const bool distributed = GENERATE(false, true);
  CAPTURE(planted, distributed);
  auto what = of_replicas(replicas);
  what.job.reduction.grain = 256;
  const auto calm = tests::undisturbed(what);
  what.job.reduction.distributed_optimizer = distributed;
  what.job.faults.fault = planted + "@4";
  const auto x = tests::live(what);
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  if (!distributed)  // otherwise its undisturbed run is another one
    CHECK(tests::look_at_same(x, calm) == tests::sentences{});
  CHECK(x.restarts == 0);
  for (const auto& step : x.steps)
    CHECK(step["skipped_iterations"] == 0);
  REQUIRE(x.events.size() == 2);
  CHECK(x.events[0]["event"] == "rerun");
  CHECK(x.events[0]["resumed_from"] == 3);
  CHECK(x.events[0]["state_from"] == "estate");
  CHECK(x.events[1]["event"] == "wrong bits");
  CHECK(x.events[1]["verdict"] == "transient");
  CHECK(x.events[1]["who"] == who);
}

TEST_CASE("VERIFY-3: a step with a persistent NaN is skipped as without recovery",
          "[scenario][recovery]") {
  const int replicas = GENERATE(1, 2);
  auto what = of_replicas(replicas);
  what.job.training.skippable_in_a_row = 3;
  what.job.recovery.max_restarts = 1;  // second runs do not count
  what.job.faults.fault = "nan:0.1@3-5";
  auto off = what;
  off.job.recovery.on = false;
  const auto expected = tests::live(off);
  REQUIRE(expected.end.exit_code == 0);
  CHECK(expected.events.empty());
  const auto x = tests::live(what);
  CHECK(tests::look_at_whole(x, what.job) == tests::sentences{});
  CHECK(tests::look_at_same(x, expected) == tests::sentences{});
  CHECK(x.restarts == 0);
  REQUIRE(x.events.size() == 6);
  for (std::size_t i = 0; i < x.events.size(); i += 2) {
    CHECK(x.events[i]["event"] == "rerun");
    CHECK(x.events[i]["who"] == "step " + std::to_string(3 + i / 2));
    CHECK(x.events[i + 1]["event"] == "not finite");
    CHECK(x.events[i + 1]["verdict"] == "reproducible");
    CHECK(x.events[i + 1]["who"] == (replicas == 1 ? "stage:0.1" : "stage:*.1"));
  }
}

TEST_CASE("VERIFY-3: a step with a persistent NaN ends the run as without recovery",
          "[scenario][recovery]") {
  auto what = of_replicas(2);
  what.job.faults.fault = "nan:0.1@4";
  const auto x = tests::live(what);
  CHECK(x.end.exit_code == 2);
  CHECK_THAT(x.end.reason,
             ContainsSubstring("iteration 4: the gradient of ")
                 && ContainsSubstring("has the state of iteration 3"));
  CHECK(x.iterations == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(x.saved == 3);
  CHECK(x.leased == 0);
  REQUIRE(x.events.size() == 2);
  CHECK(x.events[1]["verdict"] == "reproducible");
}

TEST_CASE("overflows that adjust the loss scale cause no second run", "[scenario][recovery]") {
  auto job = tests::watched_job(tests::tiny_job(2, 1));
  job.training.precision = runtime::dtype::f16;
  const auto x = tests::live({"fp16", job});
  CHECK(tests::look_at_whole(x, job) == tests::sentences{});
  CHECK(x.steps.back()["skipped_iterations"] > 0);
  CHECK(x.events.empty());
}
