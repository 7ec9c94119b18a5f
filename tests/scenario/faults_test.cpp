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
  // The chain of those who passed it on stands in front of the cause.
  const auto place = who.substr(who.find(':') + 1);
  const auto chain = who.starts_with("lane:") ? "stage:" + place + ": reduce: the fault"
                     : who.starts_with("stage:")
                         ? "replica:" + place.substr(0, 1) + ": " + who + ": the"
                         : who + ": the fault";
  CHECK_THAT(end.reason, ContainsSubstring(chain));
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

TEST_CASE("a monitor that dies at the very end is not forgotten", "[scenario][fault]") {
  auto job = tests::tiny_job(1, 1);
  job.train_iterations = 3;
  job.disturbance.fault = "monitor@3";
  const auto end = actors::run(tests::tiny_resources(job));
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("monitor: the fault"));
}

TEST_CASE("a log file on a full disk ends the job with the system's reason", "[scenario][fault]") {
  auto job = tests::tiny_job(1, 1);
  job.train_iterations = 1;
  job.watch.log_file = "/dev/full";
  const auto end = actors::run(tests::tiny_resources(job));
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("No space left on device"));
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
