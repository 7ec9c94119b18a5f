// STEP-7: a step with a loss or gradient that is not finite changes no state: all ranks skip it, or
// the job ends.

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

std::map<int, json> log_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.reason == "");
  CHECK(prepared->node->transport->leased() == 0);
  return tests::steps_in(folder / "log.jsonl");
}

/// Plants NaN in a gradient of some steps of a reference trainer, like a job's fault: after the
/// step began, before its first forward pass.
class nan_source final : public runtime::batch_source {
 public:
  nan_source(const runtime::recipe& recipe, std::uint64_t first, std::uint64_t last)
      : data_(recipe, true), first_(first), last_(last) {}

  void plant_in(runtime::reference_trainer& trainer) { trainer_ = &trainer; }

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    const auto iteration = trainer_->iteration() + 1;
    if (at.microbatch == 0 && at.replica == 0 && first_ <= iteration && iteration <= last_)
      trainer_->state().inject_nan_gradient();
    return data_.microbatch(at);
  }

 private:
  tests::formula_source data_;
  std::uint64_t first_, last_;
  runtime::reference_trainer* trainer_ = nullptr;
};

std::vector<runtime::step_report> by_reference(const runtime::training_job& job,
                                               std::uint64_t first,
                                               std::uint64_t last) {
  runtime::stream stream(job.backend, job.threads_per_worker, {});
  const auto data = std::make_shared<nan_source>(job.training, first, last);
  runtime::reference_trainer trainer(job.training, data, stream);
  data->plant_in(trainer);
  std::vector<runtime::step_report> out;
  for (std::uint64_t i = 0; i < job.train_iterations; ++i)
    out.push_back(trainer.step());
  return out;
}

runtime::training_job skipping_job(int pipeline, int data, int tensor = 1) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  job.train_iterations = 7;
  job.training.skippable_in_a_row = 3;
  return job;
}

/// Checks that steps 3 and 4 were skipped, and that only their data were consumed.
void check_skipped(const std::map<int, json>& steps) {
  REQUIRE(steps.size() == 7);
  for (const int i : {3, 4}) {
    CHECK(steps.at(i)["state_digest"] == steps.at(2)["state_digest"]);
    CHECK(steps.at(i)["grad_norm"].is_null());
    CHECK(steps.at(i)["lm_loss"].is_number());  // only a gradient was planted
    CHECK(steps.at(i)["skipped_iterations"] == i - 2);
    CHECK(steps.at(i)["consumed_samples"] == 8 * i);
  }
  CHECK(steps.at(5)["state_digest"] != steps.at(2)["state_digest"]);
  CHECK(steps.at(7)["skipped_iterations"] == 2);
  CHECK(steps.at(5)["learning_rate"] == steps.at(3)["learning_rate"]);  // without the skipped steps
}

}  // namespace

TEST_CASE("STEP-7: whichever rank finds NaN, all skip the step, with the reference trainer's bits",
          "[scenario]") {
  const auto [P, D, who] = GENERATE(table<int, int, std::string>({{1, 1, "nan:0.0"},
                                                                  {2, 1, "nan:0.1"},
                                                                  {4, 1, "nan:0.2"},
                                                                  {1, 2, "nan:1.0"},
                                                                  {2, 2, "nan:1.0"}}));
  const bool distributed = GENERATE(false, true);
  CAPTURE(P, D, who, distributed);
  auto job = skipping_job(P, D);
  job.faults = {.seed = 3, .lane_delay_us = 200, .message_delay_us = 200};
  job.faults.fault = who + "@3-4";
  job.reduction = {.distributed_optimizer = distributed,
                   .bucket_size = 4096,
                   .overlap_gradients = distributed,
                   .overlap_parameters = distributed};
  const auto steps = log_of(job);
  check_skipped(steps);
  const auto expected = by_reference(job, 3, 4);
  for (const auto& x : expected) {
    const auto& seen = steps.at(int(x.iteration));
    CHECK(seen["state_digest"] == to_string(x.state));
    CHECK(seen["lm_loss"] == x.loss);
    CHECK(seen["learning_rate"] == x.learning_rate);
    CHECK(seen["skipped_iterations"] == x.skipped.iterations);
  }
}

TEST_CASE("STEP-7: tensor ranks skip a step together", "[scenario]") {
  const std::string who = GENERATE("nan:0.0.1", "nan:1.1.0", "nan:1.1.1");
  const bool distributed = GENERATE(false, true);
  CAPTURE(who, distributed);
  auto job = skipping_job(2, 2, 2);
  job.layout.sequence_parallel = true;
  job.reduction.distributed_optimizer = distributed;
  job.reduction.grain = 256;
  job.faults.fault = who + "@3-4";
  const auto steps = log_of(job);
  check_skipped(steps);
  job.faults.fault.clear();
  CHECK(log_of(job).at(2)["state_digest"] == steps.at(2)["state_digest"]);
}

TEST_CASE("STEP-7: a NaN on all replicas is not a fault of verified passes", "[scenario]") {
  const double fraction = GENERATE(0.5, 1.0);
  CAPTURE(fraction);
  auto job = skipping_job(2, 2);
  job.recovery.verify_fraction = fraction;
  job.faults.fault = "nan:1.0@3-4";
  check_skipped(log_of(job));
}

TEST_CASE("a run that was stopped after a skipped step continues like an uninterrupted one",
          "[scenario]") {
  // Between two skipped steps, right after them, and later.
  const std::uint64_t until = GENERATE(3, 4, 6);
  const bool distributed = GENERATE(false, true);
  CAPTURE(until, distributed);
  auto job = skipping_job(2, 2);
  job.reduction.distributed_optimizer = distributed;
  job.reduction.grain = 256;
  job.faults.fault = "nan:0.0@3-4";
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
         {"state_digest", "lm_loss", "learning_rate", "skipped_iterations", "consumed_samples"})
      CHECK(seen.at(iteration)[same] == x[same]);
}

TEST_CASE("a step that is not finite ends the run with its cause, and saves the state before it",
          "[scenario][fault]") {
  const auto [T, who, where] = GENERATE(table<int, std::string, std::string>(
      {{1, "nan:0.1", "on stage 0.1"}, {2, "nan:1.0.1", "on stage 0.0.1"}}));
  const bool distributed = GENERATE(false, true);
  CAPTURE(who, distributed);
  const tests::scratch_folder whole, cut;
  auto job = tests::tiny_job(2, T, T);
  job.reduction.distributed_optimizer = distributed;
  job.reduction.grain = 256;
  job.checkpoints.save = cut / "checkpoints";
  job.watch.log_file = cut / "log.jsonl";
  job.faults.fault = who + "@4";
  const auto prepared = tests::tiny_prepared(job);
  const auto end = actors::run(prepared);
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("iteration 4: the gradient of "));
  if (!distributed)  // otherwise the replica that owns that share is named
    CHECK_THAT(end.reason, ContainsSubstring(where));
  CHECK_THAT(end.reason, ContainsSubstring("has the state of iteration 3"));
  CHECK(prepared->node->transport->leased() == 0);
  CHECK(tests::steps_in(cut / "log.jsonl").size() == 3);
  const auto found = runtime::latest_checkpoint(job.checkpoints.save);
  REQUIRE(found.folder);
  CHECK(found.folder->filename() == "iter_0000003");

  // The saved state is that of a run without the fault.
  job.faults.fault.clear();
  REQUIRE(actors::run(tests::going_on(job, *found.folder)).exit_code == 0);
  auto clean = job;
  clean.checkpoints.save.clear();
  CHECK(tests::steps_in(cut / "log.jsonl").at(12)["state_digest"]
        == log_of(clean).at(12)["state_digest"]);
}

TEST_CASE("a run that diverges ends after the allowed number of consecutive skipped steps",
          "[scenario][fault]") {
  auto job = tests::tiny_job(2, 1);
  job.training.rate = {.maximum = 1e30, .style = runtime::decay_style::constant};
  job.training.skippable_in_a_row = 4;
  job.train_iterations = 50;
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.exit_code == 2);
  CHECK_THAT(end.reason, ContainsSubstring("the 4 steps before it were skipped"));
  CHECK_THAT(end.reason, ContainsSubstring("the loss of replica 0 is "));
}
