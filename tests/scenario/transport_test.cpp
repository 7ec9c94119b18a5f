// Jobs that send tensors over a wire, as between processes.

#include "runtime/checkpoint/checkpoint.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <nlohmann/json.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

runtime::training_job wired_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.transport = runtime::transports::ucx;
  return job;
}

/// (state, loss, norm) of each step.
std::vector<std::string> course_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);
  CHECK(prepared->node->transport->leased() == 0);
  CHECK(prepared->node->transport->counters().dropped == 0);
  CHECK(prepared->node->transport->counters().refused == 0);
  const auto copied = prepared->node->transport->counters().bytes_copied.load();
  CHECK((job.transport == runtime::transports::ucx) == (copied > 0));
  std::vector<std::string> out;
  std::ifstream in(job.watch.log_file);
  for (std::string line; std::getline(in, line);) {
    const auto x = nlohmann::json::parse(line);
    out.push_back(nlohmann::json{x["state_digest"], x["lm_loss"], x["grad_norm"]}.dump());
  }
  return out;
}

}  // namespace

TEST_CASE("every transport gives the same bits", "[scenario]") {
  const auto [P, D, T]
      = GENERATE(table<int, int, int>({{1, 1, 1}, {2, 2, 1}, {4, 1, 1}, {2, 1, 2}}));
  const bool delayed = GENERATE(false, true);
  CAPTURE(P, D, T, delayed);
  auto job = wired_job(P, D, T);
  if (delayed)
    job.faults = {.seed = 7, .lane_delay_us = 300, .message_delay_us = 300};
  const auto by_ucx = course_of(job);
  CHECK(by_ucx.size() == 12);
  job.transport = runtime::transports::tickets;
  CHECK(by_ucx == course_of(job));
}

TEST_CASE("checkpoints are written from tensors that came over a wire", "[scenario]") {
  const tests::scratch_folder folder;
  auto job = wired_job(2, 1);
  job.checkpoints.save = folder / "checkpoints";
  job.checkpoints.save_interval = 6;
  CHECK(course_of(job).size() == 12);
  CHECK(runtime::latest_checkpoint(folder / "checkpoints").folder.has_value());
}

TEST_CASE("the death of an actor during a step over a wire ends the job, and no lease is left",
          "[scenario][fault]") {
  const std::string who = GENERATE(
      "stage:0.0", "stage:1.1", "lane:0.1", "lane:1.0", "loader", "node", "checkpointer");
  const bool delayed = GENERATE(false, true);
  CAPTURE(who, delayed);
  const tests::scratch_folder folder;
  auto job = wired_job(2, 2);
  job.checkpoints.save = folder / "checkpoints";
  job.checkpoints.save_interval = 3;
  if (delayed)
    job.faults = {.seed = 3, .lane_delay_us = 500, .message_delay_us = 500};
  job.faults.fault = who + (who == "node" ? "@1" : "@3");
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 3);
  CHECK_THAT(end.reason, ContainsSubstring("the fault injected for " + who));
  CHECK(prepared->node->transport->leased() == 0);
}
