// Whoever fails, the job ends in order and says who and why; nobody is left hanging.

#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a planted exception in any one actor ends the job, naming it", "[scenario][fault]") {
  // lane:0.1 strikes while stage 1.1 waits for it in the reduction.
  const std::string who = GENERATE("supervisor",
                                   "node",
                                   "loader",
                                   "monitor",
                                   "checkpointer",
                                   "replica:1",
                                   "stage:0.0",
                                   "stage:1.1",
                                   "lane:0.1",
                                   "lane:1.0");
  const bool disturbed = GENERATE(false, true);
  CAPTURE(who, disturbed);
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 2);
  job.checkpoints.save = folder / "checkpoints";
  job.checkpoints.save_interval = 3;
  if (disturbed)
    job.disturbance = {.seed = 3, .lane_delay_us = 500, .message_delay_us = 500};
  job.disturbance.fault = who + (who == "node" ? "@1" : "@3");
  const auto shared = tests::tiny_resources(job);
  const auto end = actors::run(shared);
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("the fault that was planted for " + who));
  const auto actor = who.substr(0, 5) == "lane:" ? "stage:" + who.substr(5) : who;
  CHECK_THAT(end.reason, ContainsSubstring(actor));
  CHECK(shared->transport->leased() == 0);
}

TEST_CASE("a loss that is not finite stops the job before anybody updates", "[scenario][fault]") {
  auto job = tests::tiny_job(2, 1);
  job.how.rate = {.maximum = 1e30, .style = runtime::decay_style::constant};
  job.train_iterations = 50;
  const auto end = actors::run(tests::tiny_resources(job));
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("is not finite"));
  CHECK_THAT(end.reason, ContainsSubstring("--lr"));
}

TEST_CASE("asking early for the end finishes the step, saves, and is no failure", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = tests::tiny_job(2, 2);
  job.train_iterations = 100000;
  job.checkpoints.save = folder / "checkpoints";
  const auto end = actors::run(tests::tiny_resources(job),
                               [](const actors::drain_request& ask) { ask("SIGTERM"); });
  CHECK(end.exit_code == 0);
  CHECK(end.reason == "");
}
