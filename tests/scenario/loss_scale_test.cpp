// fp16 with a loss scale: all stages share it, and skipped steps adjust it.

#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

/// 2^32 overflows at once; after some twenty steps the scale is low enough. With this window it
/// also grows again.
runtime::training_job fp16_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.training.precision = runtime::dtype::f16;
  job.training.scaling.window = 4;
  job.train_iterations = 36;
  return job;
}

std::map<int, json> log_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  CHECK(prepared->node->transport->leased() == 0);
  return tests::steps_in(folder / "log.jsonl");
}

std::vector<runtime::step_report> by_reference(const runtime::training_job& job) {
  runtime::stream stream(job.backend, job.threads_per_worker, {});
  runtime::reference_trainer trainer(
      job.training, std::make_shared<tests::formula_source>(job.training, true), stream);
  std::vector<runtime::step_report> out;
  for (std::uint64_t i = 0; i < job.train_iterations; ++i)
    out.push_back(trainer.step());
  return out;
}

/// Checks that each scale follows from the steps before.
void check_trace(const runtime::loss_scaling& scaling, const std::map<int, json>& steps) {
  auto expected = runtime::first_scale(scaling);
  int skipped = 0, grown = 0;
  for (const auto& [iteration, x] : steps) {
    const bool left_out = x["skipped_iterations"] != skipped;
    CHECK(left_out == x["grad_norm"].is_null());
    skipped = x["skipped_iterations"];
    const auto next = runtime::next_scale(scaling, expected, !left_out);
    grown += next.value > expected.value;
    expected = next;
    CHECK(x["loss_scale"] == expected.value);
  }
  CHECK(skipped > 8);
  CHECK(skipped < 33);
  CHECK(grown > 0);
}

}  // namespace

TEST_CASE("fp16 with actors has the bits of the trainer without, while its scale adjusts",
          "[scenario][fp16][unsanitized]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool distributed = GENERATE(false, true);
  CAPTURE(P, D, distributed);
  auto job = fp16_job(P, D);
  job.faults = {.seed = 3, .lane_delay_us = 50, .message_delay_us = 50};
  job.reduction = {.distributed_optimizer = distributed,
                   .bucket_size = 4096,
                   .overlap_gradients = distributed,
                   .overlap_parameters = distributed};
  const auto steps = log_of(job);
  REQUIRE(steps.size() == job.train_iterations);
  check_trace(job.training.scaling, steps);
  CHECK(steps.at(1)["grad_norm"].is_null());  // the first overflows
  for (const auto& x : by_reference(job)) {
    const auto& seen = steps.at(int(x.iteration));
    CHECK(seen["state_digest"] == to_string(x.state));
    CHECK(seen["lm_loss"] == x.loss);
    CHECK(seen["loss_scale"] == x.scale.value);
    CHECK(seen["learning_rate"] == x.learning_rate);
    CHECK(seen["skipped_iterations"] == x.skipped.iterations);
    if (!x.was_skipped())
      CHECK(seen["grad_norm"] == x.grad_norm);
  }
}

TEST_CASE("tensor ranks in fp16 adjust their scale together, and repeatably", "[scenario][fp16]") {
  auto job = fp16_job(2, 1, 2);
  job.layout.sequence_parallel = true;
  const auto steps = log_of(job);
  check_trace(job.training.scaling, steps);
  CHECK(log_of(job).at(36)["state_digest"] == steps.at(36)["state_digest"]);
}

TEST_CASE("a stopped run in fp16 continues with its scale, bit for bit", "[scenario][fp16]") {
  // While it falls, and after it has grown.
  const std::uint64_t until = GENERATE(7, 30);
  const int D = GENERATE(1, 2);
  CAPTURE(until, D);
  auto job = fp16_job(2, D);
  job.reduction.distributed_optimizer = D > 1;
  job.reduction.grain = 256;
  const auto expected = log_of(job);

  const tests::scratch_folder folder;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = folder / "log.jsonl";
  job.exit_interval = until;
  REQUIRE(actors::run(tests::tiny_prepared(job)).exit_code == 0);
  const auto found = runtime::latest_checkpoint(job.checkpoints.save);
  REQUIRE(found.folder);
  job.exit_interval = 0;
  REQUIRE(actors::run(tests::going_on(job, *found.folder)).exit_code == 0);
  const auto seen = tests::steps_in(folder / "log.jsonl");
  REQUIRE(seen.size() == expected.size());
  for (const auto& [iteration, x] : expected)
    for (const auto* same :
         {"state_digest", "lm_loss", "loss_scale", "learning_rate", "skipped_iterations"})
      CHECK(seen.at(iteration)[same] == x[same]);
}

TEST_CASE("an fp16 run ends with the reason if its scale cannot fall further",
          "[scenario][fp16][fault]") {
  auto job = fp16_job(2, 1);
  job.training.scaling = {.initial = 4, .minimum = 2, .hysteresis = 1};
  job.faults.fault = "nan:0.1@3-9";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 2);
  // Iteration 3 lowers it.
  CHECK_THAT(end.reason, ContainsSubstring("iteration 4: the gradient of "));
  CHECK_THAT(end.reason, ContainsSubstring("though the loss scale is down at its minimum, 2"));
}

TEST_CASE("losses in fp16 equal those in fp32 within a hundredth", "[scenario][fp16]") {
  auto job = fp16_job(1, 1);
  job.train_iterations = 50;
  job.training.scaling = {.initial = 4096};
  const auto half = by_reference(job);
  job.training.precision = runtime::dtype::f32;
  const auto whole = by_reference(job);
  CHECK(half.back().skipped.iterations == 0);
  CHECK(whole.back().loss < 0.9 * whole.front().loss);  // it learns
  // Each rounding is off by up to 2^-12, and a step has some hundred of them.
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(std::abs(half[i].loss - whole[i].loss) < 0.01 * whole[i].loss);
}

TEST_CASE("a constant scale that is a power of two does not change finite states",
          "[scenario][fp16]") {
  auto job = fp16_job(1, 1);
  job.train_iterations = 8;
  job.training.scaling.constant = 1024;
  const auto first = by_reference(job);
  job.training.scaling = {.initial = 1024};
  const auto dynamic = by_reference(job);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].state == dynamic[i].state);
    CHECK(first[i].scale.value == 1024);
  }
}
