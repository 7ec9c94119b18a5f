// A stopped and resumed run equals an uninterrupted one.

#include "actors/job/start.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;

namespace {

/// Runs until `until`, from the newest checkpoint if there is one.
void run(runtime::training_job job, std::uint64_t until, const std::filesystem::path& folder) {
  job.exit_interval = until;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = folder / "log.jsonl";
  std::filesystem::create_directories(job.checkpoints.save);
  const auto found = runtime::latest_checkpoint(job.checkpoints.save);
  const auto end
      = actors::run(found.folder ? tests::going_on(job, *found.folder) : tests::tiny_prepared(job));
  CHECK(end.reason == "");
  REQUIRE(end.exit_code == 0);
}

void check_resumed(const runtime::training_job& job) {
  const tests::scratch_folder whole, parts;
  run(job, 12, whole.path());
  run(job, 5, parts.path());
  run(job, 12, parts.path());
  const auto expected = tests::digests_in(whole / "log.jsonl");
  REQUIRE(expected.size() == 12);
  CHECK(tests::digests_in(parts / "log.jsonl") == expected);
}

}  // namespace

TEST_CASE("a resumed run has the digests of an uninterrupted one", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool tied = GENERATE(true, false);
  CAPTURE(P, D, tied);
  auto job = tests::tiny_job(P, D);
  job.training.model.as<runtime::gpt_config>().tied_embeddings = tied;
  check_resumed(job);
}

TEST_CASE("a resumed run has the same digests on tensor ranks and with distributed optimizers",
          "[scenario][unsanitized]") {
  const bool tensor = GENERATE(false, true), distributed = GENERATE(false, true),
             bf16 = GENERATE(false, true);
  CAPTURE(tensor, distributed, bf16);
  auto job = tests::tiny_job(2, 2, tensor ? 2 : 1);
  job.layout.sequence_parallel = tensor;
  job.training.precision = bf16 ? runtime::dtype::bf16 : runtime::dtype::f32;
  job.reduction = {.distributed_optimizer = distributed,
                   .bucket_size = 4096,
                   .overlap_gradients = distributed,
                   .overlap_parameters = distributed,
                   .grain = 256};
  check_resumed(job);
}

TEST_CASE(
    "a resumed run has the same digests with every optimizer and with changing rates and batches",
    "[scenario][unsanitized]") {
  using runtime::optimizer_kind;
  const auto kind = optimizer_kind(GENERATE(1, 2, 3));  // sgd, lion, muon
  const bool tensor = GENERATE(false, true);
  CAPTURE(int(kind), tensor);
  auto job = tests::tiny_job(1, 2, tensor ? 2 : 1);
  job.reduction = {.distributed_optimizer = true, .bucket_size = 4096, .grain = 256};
  auto& optimizer = job.training.optimizer;
  optimizer.kind = kind;
  optimizer.muon.tensor_mode = runtime::muon_tensor_mode::duplicated;
  optimizer.weight_decay_style = runtime::increase_style::linear;
  optimizer.weight_decay_samples = 96;
  auto& rate = job.training.rate;
  rate.style = runtime::decay_style::wsd;
  rate.end_decay = 350;
  rate.decoupled_maximum = 5e-3;
  job.training.batch.steps = {{0, 4}, {12, 12}, {40, 8}};
  check_resumed(job);
}

TEST_CASE("the state of another optimizer is refused, with a remedy", "[scenario]") {
  const tests::scratch_folder folder;
  run(tests::tiny_job(1, 1), 2, folder.path());
  auto job = tests::tiny_job(1, 1);
  job.training.optimizer.kind = runtime::optimizer_kind::muon;
  job.checkpoints.load = folder / "checkpoints";
  CHECK_THROWS_WITH(
      actors::plan_start(job),
      Catch::Matchers::ContainsSubstring(
          "has optimizer state of adam, but this run's `optimizer.kind` is muon, others by adam"));
  job.checkpoints.no_load_optim = true;
  CHECK(actors::plan_start(job).iteration == 2);
}

TEST_CASE("a resumed run has the same digests with two replicas in turn on a worker",
          "[scenario]") {
  auto job = tests::tiny_job(2, 2);
  tests::play_in_turn(job, 2);
  check_resumed(job);
}

TEST_CASE("a checkpoint of one layout continues under another", "[scenario]") {
  const int P = GENERATE(1, 4);
  CAPTURE(P);
  const tests::scratch_folder whole, parts;
  run(tests::tiny_job(2, 2), 6, whole.path());
  run(tests::tiny_job(2, 2), 5, parts.path());
  run(tests::tiny_job(P, 2), 6, parts.path());
  // The pipeline does not affect sums, so even the bits equal those of the other layout.
  CHECK(tests::digests_in(parts / "log.jsonl") == tests::digests_in(whole / "log.jsonl"));
}

TEST_CASE("only the newest checkpoints are kept, and a failed removal does not end the run",
          "[scenario]") {
  auto job = tests::tiny_job(1, 1);
  job.checkpoints.save_interval = 2;
  job.checkpoints.keep_last = 1;
  const tests::scratch_folder good, bad;
  run(job, 6, good.path());
  CHECK(std::filesystem::exists(good / "checkpoints/iter_0000006"));
  CHECK_FALSE(std::filesystem::exists(good / "checkpoints/iter_0000004"));
  // Blocks the name that a checkpoint has during its removal.
  std::filesystem::create_directories(bad / "checkpoints/.iter_0000002.removed/x");
  run(job, 6, bad.path());
  CHECK(std::filesystem::exists(bad / "checkpoints/iter_0000006"));
  CHECK(std::filesystem::exists(bad / "checkpoints/iter_0000002"));
}
