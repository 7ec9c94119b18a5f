// Every optimizer in arrangements of actors, compared with the trainer without actors.

#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using namespace troupe;
using runtime::muon_tensor_mode;
using runtime::optimizer_kind;

namespace {

runtime::training_job trained_by(optimizer_kind kind, int pipeline, int data, int tensor) {
  auto job = tests::tiny_job(pipeline, data, tensor);
  tests::make_llama(job.training.model.as<runtime::gpt_config>());
  auto& training = job.training;
  training.optimizer.kind = kind;
  training.optimizer.muon.extra_scale = 0.2;
  training.rate.decoupled_maximum = 5e-3;
  training.rate.maximum = kind == optimizer_kind::sgd    ? 3e-2
                          : kind == optimizer_kind::lion ? 1e-3
                                                         : 3e-3;
  job.reduction.bucket_size = 4096;
  return job;
}

std::map<int, nlohmann::json> steps_of(runtime::training_job job) {
  const tests::scratch_folder folder;
  job.watch.log_file = folder / "log.jsonl";
  const auto end = actors::run(tests::tiny_prepared(job));
  CHECK(end.reason == "");
  auto out = tests::steps_in(folder / "log.jsonl");
  REQUIRE(out.size() == job.train_iterations);
  return out;
}

}  // namespace

TEST_CASE("with every optimizer the bits are the same for stages, replicas and sharded state",
          "[scenario][unsanitized]") {
  const auto kind = optimizer_kind(GENERATE(1, 2, 3));  // sgd, lion, muon
  const int P = GENERATE(1, 2);
  const auto precision = runtime::dtype(GENERATE(0, 1, 2));  // f32, bf16, f16
  CAPTURE(int(kind), P, to_string(precision));
  auto job = trained_by(kind, P, 2, 1);
  job.training.precision = precision;
  job.training.scaling.initial = 1 << 24;  // in f16 one or more steps are skipped
  const auto expected = tests::by_reference_trainer(job);
  CHECK((expected.back().skipped.iterations > 0) == (precision == runtime::dtype::f16));
  INFO(expected.back().skipped.iterations << " steps skipped");
  CHECK(expected.back().loss < expected.front().loss - 0.05);
  for (const bool distributed : {false, true}) {
    job.reduction.distributed_optimizer = distributed;
    const auto seen = steps_of(job);
    for (const auto& step : expected) {
      const auto& line = seen.at(int(step.iteration));
      CHECK(line["state_digest"] == to_string(step.state));
      CHECK((step.was_skipped() || line["lm_loss"] == step.loss));
    }
  }
}

TEST_CASE("with every optimizer tensor ranks train as one, and sharded state gives the same bits",
          "[scenario][unsanitized]") {
  struct choice {
    optimizer_kind kind;
    muon_tensor_mode mode;
  };
  const auto [kind, mode] = GENERATE(choice{optimizer_kind::sgd, muon_tensor_mode::blockwise},
                                     choice{optimizer_kind::lion, muon_tensor_mode::blockwise},
                                     choice{optimizer_kind::muon, muon_tensor_mode::duplicated},
                                     choice{optimizer_kind::muon, muon_tensor_mode::distributed});
  CAPTURE(int(kind), int(mode));
  auto job = trained_by(kind, 1, 2, 2);
  job.training.optimizer.muon.tensor_mode = mode;
  const auto expected = tests::by_reference_trainer(job);
  const auto whole = steps_of(job);
  // The tolerance that docs/guides/layouts.md promises across layouts.
  for (const auto& step : expected)
    CHECK_THAT(whole.at(int(step.iteration))["lm_loss"].get<double>(),
               Catch::Matchers::WithinAbs(step.loss, 1e-4));
  job.reduction.distributed_optimizer = true;
  const auto sharded = steps_of(job);
  for (const auto& [iteration, line] : whole)
    CHECK(sharded.at(iteration)["state_digest"] == line["state_digest"]);
}
