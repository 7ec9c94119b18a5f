// A run that was stopped and resumed is the run that was not.

#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

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

TEST_CASE("resuming gives the digests of the run that was not stopped", "[scenario]") {
  const int P = GENERATE(1, 2), D = GENERATE(1, 2);
  const bool tied = GENERATE(true, false);
  CAPTURE(P, D, tied);
  auto job = tests::tiny_job(P, D);
  job.training.model.tied_embeddings = tied;
  check_resumed(job);
}

TEST_CASE("resuming gives the digests on tensor ranks and with distributed optimizers",
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

TEST_CASE("resuming gives the digests of a worker that plays two replicas in turn", "[scenario]") {
  auto job = tests::tiny_job(2, 2);
  tests::play_in_turn(job, 2);
  check_resumed(job);
}

TEST_CASE("a checkpoint of one layout goes on under another", "[scenario]") {
  const int P = GENERATE(1, 4);
  CAPTURE(P);
  const tests::scratch_folder whole, parts;
  run(tests::tiny_job(2, 2), 6, whole.path());
  run(tests::tiny_job(2, 2), 5, parts.path());
  run(tests::tiny_job(P, 2), 6, parts.path());
  // The pipeline is no part of any sum, so that even the bits are those of the other layout.
  CHECK(tests::digests_in(parts / "log.jsonl") == tests::digests_in(whole / "log.jsonl"));
}

TEST_CASE("only the newest checkpoints are kept, and what cannot be removed ends no run",
          "[scenario]") {
  auto job = tests::tiny_job(1, 1);
  job.checkpoints.save_interval = 2;
  job.checkpoints.keep_last = 1;
  const tests::scratch_folder good, bad;
  run(job, 6, good.path());
  CHECK(std::filesystem::exists(good / "checkpoints/iter_0000006"));
  CHECK_FALSE(std::filesystem::exists(good / "checkpoints/iter_0000004"));
  // In the way of the name that a checkpoint has while it is removed.
  std::filesystem::create_directories(bad / "checkpoints/.iter_0000002.removed/x");
  run(job, 6, bad.path());
  CHECK(std::filesystem::exists(bad / "checkpoints/iter_0000006"));
  CHECK(std::filesystem::exists(bad / "checkpoints/iter_0000002"));
}
